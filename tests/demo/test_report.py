import json
from collections import Counter
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest
from rich.console import Console

from demo import __main__ as command
from demo.audit import Findings
from demo.payment_sandbox import PaymentFault
from demo.pictures import FOLDER, pictures
from demo.report import FAULT_FIGURES, report_orders
from demo.scenarios import orders
from demo.scenarios.orders import TrafficRun
from demo.shop import Shop
from tests.demo.audit.world import CLEAN

RUN_FIGURES = {
    "charge_answers_dropped": 94,
    "functions_killed": 30,
    "messages_per_second": 31.5,
    "deploy_seconds": 12.3,
}
NAMES = (
    *("sent", "distinct", "deliveries", "effects", "refused", "lost", "doubled", "balance_error"),
    *("unexplained_dead_letters", "orders_paid", "orders_refused", "orders_declined", "charges"),
    *("double_charges", "stock_balance_error", "emails", "unfinished"),
)
FOUND: dict[str, Any] = {name: number for number, name in enumerate(NAMES, 101)}
FINDINGS = Findings(**FOUND, quarantined_by_reason=Counter({"invalid-data": 5, "no-key": 2}))
DOCUMENTED = {**FOUND, **RUN_FIGURES, "quarantined": 7}


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("demo.report.REPORTS", tmp_path / "reports")
    return tmp_path / "reports"


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """The output of the report."""
    paper = StringIO()
    monkeypatch.setattr("demo.report.console", Console(file=paper, width=100))
    return paper


def written(reports: Path) -> Any:
    return json.loads((reports / "demo.json").read_text())


@pytest.mark.parametrize(
    ("changes", "minimum", "sentence"),
    [
        ({}, {"functions_killed": 30}, "Each of the 500 orders took effect once"),
        ({"lost": 1, "double_charges": 2}, {}, "broken: lost, double charges must be 0"),
        ({"effects": 0}, {}, "The run has failed"),
        ({}, {"functions_killed": 31}, "functions_killed is 30; less than 31 proves nothing"),
    ],
)
def test_the_verdict_is_a_sentence(
    reports: Path,
    paper: StringIO,
    changes: dict[str, Any],
    minimum: dict[str, int],
    sentence: str,
) -> None:
    found = replace(CLEAN, distinct=500, **changes)
    passed = report_orders(found, RUN_FIGURES, minimum)
    assert passed is sentence.startswith("Each")
    assert sentence in paper.getvalue()


def test_the_demo_reports_every_figure_of_its_run(
    reports: Path, paper: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TrafficRun(manifest={}, seconds=2.0, killed=30)
    for name, result in {"send_traffic": run, "audit": FINDINGS}.items():
        monkeypatch.setattr(orders, name, lambda *_, result=result, **__: result)
    monkeypatch.setattr(Shop, "evidence", lambda _: None)
    monkeypatch.setattr(command, "deploy_service", lambda *_, **__: None)
    sandbox: Any = SimpleNamespace(
        url="", fired=Counter({PaymentFault.DROP: 94, PaymentFault.DELAY: 3})
    )
    aws: Any = None
    command._deploy_and_run(aws, sandbox, "faults")
    assert written(reports) == {**DOCUMENTED, "messages_per_second": 51.5, "deploy_seconds": ANY}


@pytest.mark.parametrize("name", ["demo.svg", "trace.svg"])
def test_a_picture_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == pictures()[name], "run `make redraw`"


def test_the_recorded_run_was_clean_in_spite_of_faults() -> None:
    figures = json.loads((FOLDER / "demo.json").read_text())
    assert {name: figures[name] for name in FAULT_FIGURES if name in figures} == dict.fromkeys(
        FAULT_FIGURES, 0
    )
    assert figures["charge_answers_dropped"] >= 50
    assert figures["functions_killed"] >= 20
