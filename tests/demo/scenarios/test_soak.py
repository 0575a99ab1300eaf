"""A short soak: processes are killed and answers lost; and when its report is a failure."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.audit import Findings
from demo.dropped_calls import Drop
from demo.payment_sandbox import PaymentFault, payment_sandbox
from demo.report import FAULT_FIGURES
from demo.scenarios.soak import SOAK, Shape, audit_figures, conclude, play
from demo.shop import Shop, deploy_service
from emulator.embedded_aws import embedded_aws

LEAST = SOAK.least.items()
SHORT = Shape(
    traffic={"count": 24, "duplicates": 24, "conflicts": 1, "malformed": 1, "declines": 2},
    calls_a_kill=15,
    drops={Drop.ANSWER_LOST: 0.04, Drop.REFUSED: 0.02, Drop.LATE: 0.02},
    charges={PaymentFault.DROP: 0.2},
    least={"sends": 48, "kills": 3, "drops": 3, "answers_lost": 1, "effects": 60},
)


@pytest.fixture(scope="module")
def service() -> Iterator[Shop]:
    with payment_sandbox() as sandbox, embedded_aws() as aws:
        yield Shop(aws, sandbox, deploy_service(aws, sandbox.url))


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("demo.report.REPORTS", tmp_path)
    return tmp_path


def test_nothing_is_lost_or_doubled_while_processes_die_and_answers_are_lost(
    service: Shop,
) -> None:
    service.shorten_visibility(*service.deployment.consumers)
    figures = play(service, SHORT, seed=11)
    assert conclude(figures, SHORT.least), figures
    assert figures["quarantined"].items() >= {"key-conflict": 2}.items()
    assert figures["drops"] == sum(figures["drops_by_kind"].values())


def figures(**changed: Any) -> dict[str, Any]:
    findings = Findings(sent=5010, distinct=2500, effects=9000)
    return {**audit_figures(findings), **SOAK.least, **changed}


def test_a_wrong_figure_or_one_below_its_minimum_fails(reports: Path) -> None:
    wrong = {name: f"{name.replace('_', ' ')} is 1, and must be 0" for name in FAULT_FIGURES}
    few = {n: f"{n} is {most - 1}, and less than {most} proves nothing" for n, most in LEAST}
    changes = {**dict.fromkeys(wrong, 1), **{name: most - 1 for name, most in LEAST}}
    assert conclude(figures(), SOAK.least)
    for name, complaint in (wrong | few).items():
        assert not conclude(figures(**{name: changes[name]}), SOAK.least)
        written = json.loads((reports / "soak.json").read_text())
        assert written["complaints"] == [complaint]
