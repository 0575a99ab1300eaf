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
from demo.shop import Shop, deploy_service
from emulator.embedded_aws import embedded_aws
from proof.soak import SOAK, Shape, audit_figures, complaints, conclude, play, redrive_safe
from tests.e2e.test_orders import placed

TRAFFIC = {"count": 40, "duplicates": 40, "conflicts": 1, "malformed": 1, "declines": 2}
SHORT = Shape(
    traffic=TRAFFIC,
    calls_a_kill=40,
    drops={Drop.ANSWER_LOST: 0.03, Drop.REFUSED: 0.02, Drop.LATE: 0.02},
    charges={PaymentFault.DROP: 0.2},
    least={"sends": 80, "kills": 3, "drops": 3, "answers_lost": 1, "effects": 100},
)


@pytest.fixture(scope="module")
def service() -> Iterator[Shop]:
    with payment_sandbox() as sandbox, embedded_aws() as aws:
        yield Shop(aws, sandbox, deploy_service(aws, sandbox.url))


def test_nothing_is_lost_or_doubled_while_processes_die_and_answers_are_lost(
    service: Shop,
) -> None:
    service.shorten_visibility(*service.deployment.consumers)
    figures = play(service, SHORT, seed=11)
    assert complaints(figures, SHORT.least) == []
    assert figures["quarantined"].items() >= {"key-conflict": 2}.items()
    assert figures["drops"] == sum(figures["drops_by_kind"].values())


def test_only_dead_letters_of_killed_functions_are_redriven(service: Shop) -> None:
    orders, sqs = service.deployment.consumer("orders"), service.aws.client("sqs")
    body = json.dumps(placed("o-killed", "sku"))
    why = {"once-reason": {"DataType": "String", "StringValue": "invalid-data"}}
    sqs.send_message(
        QueueUrl=orders.dead_letter_url, MessageBody=body
    )  # as SQS moves it: no reason
    sqs.send_message(QueueUrl=orders.dead_letter_url, MessageBody="{}", MessageAttributes=why)
    assert redrive_safe(service) == 1
    stored = service.aws.client("dynamodb").get_item(
        TableName=service.deployment.table("orders"), Key={"order_id": {"S": "o-killed"}}
    )
    assert stored["Item"]["total"] == {"N": "2500"}
    assert redrive_safe(service) == 0
    sqs.purge_queue(QueueUrl=orders.dead_letter_url)


def figures(**changed: Any) -> dict[str, Any]:
    findings = Findings(sent=5010, distinct=2500, effects=9000)
    return {**audit_figures(findings), **SOAK.least, **changed}


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({}, ""),
        *(({name: 1}, f"{name} is 1, and must be 0") for name in FAULT_FIGURES),
        *(
            ({name: number - 1}, f"{name} is {number - 1}, and less than {number} shows nothing")
            for name, number in SOAK.least.items()
        ),
    ],
)
def test_a_wrong_figure_or_one_below_its_minimum_fails(
    changed: dict[str, int], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.report.REPORTS", tmp_path)
    assert conclude(figures(**changed), SOAK) == bool(complaint)
    written = json.loads((tmp_path / "soak.json").read_text())
    assert written["complaints"] == [complaint] * bool(complaint)
