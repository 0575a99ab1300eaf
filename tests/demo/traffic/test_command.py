"""The command `send`, from its options to the queues, and the wait until they are drained."""

import hashlib
import json
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from demo.__main__ import app
from demo.traffic import command
from demo.traffic.plan import CARD, DECLINED_CARD, plan_traffic
from once.ops.aws.clients import QueueDepth
from once.ops.aws.deployment import DeployedConsumer
from once.ops.errors import OpsError
from tests.ops.cloud import Cloud
from tests.ops.support import OK, answer_with, run

NUMBERS = {"duplicates": 15, "conflicts": 3, "malformed": 4, "refusals": 5, "declines": 3}
OPTIONS = {"count": 30, **NUMBERS, "duplicates": "50%", "seed": 5}
WITH_FAULTS = tuple(f"--{name}={value}" for name, value in OPTIONS.items())


def send(*options: object, ok: bool = True) -> Result:
    result = run("send", *options, app=app)
    assert (result.exit_code == 0) is ok, result.output
    return result


def sent_with_faults(folder: Path, *options: object) -> dict[str, Any]:
    """Send sample traffic, and return its manifest."""
    file = folder / "reports" / "manifest.json"
    send(*WITH_FAULTS, "--manifest", file, *options)
    manifest: dict[str, Any] = json.loads(file.read_text())
    return manifest


def digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def test_the_manifest_adds_up_and_lists_what_each_consumer_got(
    at_work: Cloud, tmp_path: Path
) -> None:
    manifest = sent_with_faults(tmp_path)
    orders, malformed = manifest["orders"], manifest["malformed"]
    assert (len(orders), len(malformed), manifest["sent"]) == (30, 4, 30 + 15 + 3 + 4)
    totals = {"sends": 45, "conflicts": 3, "refused": 5, "declined": 3}
    assert {name: sum(order[name] for order in orders) for name in totals} == totals
    assert manifest["topic"] == at_work.outputs["once-service"]["IngressTopicArn"]
    assert manifest["consumers"] == ["inventory", "orders"]
    for order in orders:
        assert order["payment_method"] == (DECLINED_CARD if order["declined"] else CARD)
        assert order["total"] == sum(
            line["quantity"] * line["unit_price"] for line in order["lines"]
        )
        assert {line["sku"] for line in order["lines"]} <= manifest["stock"].keys()
    for consumer in manifest["consumers"]:
        bodies = at_work.delivered(consumer)
        assert bodies.total() == manifest["sent"]
        assert {n for body, n in bodies.items() if digest(body) in malformed} == {1}
        valid = [(body, n) for body, n in bodies.items() if digest(body) not in malformed]
        for order in orders:
            times = [n for body, n in valid if json.loads(body)["id"] == order["event_id"]]
            assert max(times) == order["sends"]
            assert sum(times) == order["sends"] + order["conflicts"]


def test_late_messages_are_sent_after_the_others_were_processed(at_work: Cloud) -> None:
    send(*WITH_FAULTS)
    planned = plan_traffic(count=30, **NUMBERS, seed=5)
    late = Counter(order.body for order in planned.late)
    late += Counter(order.conflicting().body for order in planned.conflicts)
    assert at_work.worked_off["orders"].total() == planned.messages - late.total()
    assert at_work.take("orders") == late


def test_the_queue_option_sends_to_one_consumer(at_work: Cloud, tmp_path: Path) -> None:
    manifest = sent_with_faults(tmp_path, "--queue", "inventory")
    assert at_work.delivered("inventory").total() == manifest["sent"]
    assert at_work.delivered("orders").total() == 0
    assert manifest["consumers"] == ["inventory"]


def test_a_message_that_sns_did_not_accept_is_sent_again(cloud: Cloud) -> None:
    failed = {"Id": "0", "Code": "Throttled", "SenderFault": False}
    refusals = [(OK, {"Successful": [], "Failed": [failed]})]
    answer_with("sns.PublishBatch", lambda params: refusals.pop() if refusals else None)
    send("--count", 1)
    assert refusals == []
    assert cloud.take("orders").total() == 1


ORDERS = DeployedConsumer(
    "orders", "queue", "dead-letters", "once-orders", isolation_queue_url="isolation"
)
EMPTY = QueueDepth(0, 0, 0)


@pytest.fixture
def depths(monkeypatch: pytest.MonkeyPatch) -> list[QueueDepth]:
    """The depths of the queues, reading by reading; the last one repeats."""
    readings: list[QueueDepth] = []

    def total_depth(sqs: object, urls: tuple[str, ...]) -> QueueDepth:
        assert urls == ("queue", "isolation")
        return readings.pop(0) if len(readings) > 1 else readings[0]

    monkeypatch.setattr(command, "client", lambda service: None)
    monkeypatch.setattr(command, "total_depth", total_depth)
    return readings


def wait(timeout: float = 60) -> list[str]:
    shown: list[str] = []
    command.wait_until_drained([ORDERS], timeout=timeout, show=shown.append)
    return shown


def test_two_empty_readings_in_a_row_are_required(depths: list[QueueDepth]) -> None:
    depths += [QueueDepth(5, 0, 0), EMPTY, QueueDepth(2, 0, 0), EMPTY, EMPTY, QueueDepth(9, 9, 9)]
    assert wait() == ["orders 5", "orders 0", "orders 2", "orders 0", "orders 0"]


def test_a_timeout_names_the_queue_and_its_depth(
    depths: list[QueueDepth], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(step=20)
    monkeypatch.setattr("demo.traffic.command.time.monotonic", lambda: next(clock))
    depths.append(QueueDepth(3, 2, 1))
    with pytest.raises(OpsError, match="after 60 s") as error:
        wait()
    assert "orders: 3 visible, 2 in flight, 1 delayed" in str(error.value)
    assert "--timeout" in str(error.value)
