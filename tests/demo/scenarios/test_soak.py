"""A short soak: processes are killed and answers lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.dropped_calls import Drop
from demo.payment_sandbox import PaymentFault, payment_sandbox
from demo.scenarios.soak import Shape, conclude, play
from demo.shop import Shop, deploy_service
from emulator.embedded_aws import embedded_aws

SHORT = Shape(
    traffic={
        "count": 24,
        "repeats": 9,
        "altered": 1,
        "borrowed": 1,
        "duplicates": 24,
        "conflicts": 1,
        "malformed": 1,
        "declines": 2,
    },
    calls_a_kill=15,
    drops={Drop.ANSWER_LOST: 0.04, Drop.REFUSED: 0.02, Drop.LATE: 0.02},
    charges={PaymentFault.DROP: 0.2},
    least={
        "sends": 48,
        "kills": 3,
        "drops": 3,
        "answers_lost": 1,
        "commands_repeated": 9,
        "effects": 60,
    },
)


@pytest.fixture(scope="module")
def service() -> Iterator[Shop]:
    with payment_sandbox() as sandbox, embedded_aws() as aws:
        yield Shop(aws, sandbox, deploy_service(aws, sandbox.url))


def test_nothing_is_lost_or_doubled_while_processes_die_and_answers_are_lost(
    service: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.report.REPORTS", tmp_path)
    service.shorten_visibility(*service.deployment.consumers)
    figures = play(service, SHORT, seed=11)
    assert conclude(figures, SHORT.least), figures
    assert figures["quarantined"].items() >= {"key-conflict": 2}.items()
    assert figures["drops"] == sum(figures["drops_by_kind"].values())
