"""A producer's event is never taken for a consumer's: type, source and route must fit together."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct

from once import Consumer, Transaction
from once.testing import FakeAws, cloud_event
from tests.once.support import facts

consumer = Consumer("orders")
ORDERS = consumer.table("orders")
HOUSE = "/once/payments"


class Order(Struct):
    order_id: str


@consumer.handles("order.placed", Order)
def place(event: Order, tx: Transaction) -> None:
    tx.update(ORDERS, {"order_id": event.order_id}, "ADD placed :one", {":one": 1})


@consumer.handles("payment.captured", Order)
def pay(event: Order, tx: Transaction) -> None:
    tx.update(ORDERS, {"order_id": event.order_id}, "ADD paid :one", {":one": 1})


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    publishers = {"payment.captured": "payments"}
    with FakeAws(consumer, {"orders": "order_id"}, publishers=publishers) as fake:
        yield fake


def event(event_type: str, source: str) -> dict[str, Any]:
    return cloud_event(event_type, {"order_id": "o-1"}, source=source)


def deliver(aws: FakeAws, body: dict[str, Any], **attributes: Any) -> None:
    """Deliver one message with attributes, as a topic does."""
    aws.sqs.send_message(
        QueueUrl=aws.queue, MessageBody=json.dumps(body), MessageAttributes=attributes
    )
    aws.deliver()


def text(value: str, data_type: str = "String") -> dict[str, Any]:
    return {"DataType": data_type, "StringValue": value}


@pytest.mark.parametrize("source", ["/shop", "/once", "/onceler/x", HOUSE + "x", "/once/other"])
def test_s2_an_internal_event_from_another_source_is_quarantined(aws: FakeAws, source: str) -> None:
    aws.deliver(event("payment.captured", source))
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "untrusted-source"
    assert "payment.captured may come from /once/payments only" in facts(letter)["error"]
    assert aws.items("orders") == []
    assert aws.items("dedup") == []


def test_s2_an_internal_event_of_its_publisher_is_handled(aws: FakeAws) -> None:
    aws.deliver(event("payment.captured", HOUSE))
    assert aws.items("orders")[0]["paid"] == 1


def test_s2_an_external_event_under_a_consumers_source_is_quarantined(aws: FakeAws) -> None:
    aws.deliver(event("order.placed", HOUSE))
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "untrusted-source"
    assert "sources under /once/ are those of consumers" in facts(letter)["error"]
    assert aws.items("dedup") == []  # or it could take a key before its own event comes


def test_an_external_event_of_any_other_source_is_handled(aws: FakeAws) -> None:
    aws.deliver(event("order.placed", "/anybody"))
    assert aws.items("orders")[0]["placed"] == 1


@pytest.mark.parametrize(
    "routed",
    [
        text("order.placed"),
        text('["order.placed", "payment.captured"]', "String.Array"),
        {"DataType": "Binary", "BinaryValue": b"payment.captured"},
    ],
    ids=["an external type", "several types", "bytes"],
)
def test_s2_an_internal_event_that_was_delivered_for_another_type_is_quarantined(
    aws: FakeAws, routed: dict[str, Any]
) -> None:
    deliver(aws, event("payment.captured", HOUSE), type=routed)
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "untrusted-source"
    assert "attribute `type` is not payment.captured" in facts(letter)["error"]
    assert aws.items("orders") == []


def test_an_internal_event_that_was_delivered_for_its_type_is_handled(aws: FakeAws) -> None:
    deliver(aws, event("payment.captured", HOUSE), type=text("payment.captured"))
    assert aws.items("orders")[0]["paid"] == 1


def test_s2_a_forged_event_that_was_sent_back_is_quarantined_again(aws: FakeAws) -> None:
    kept = {"type": {"stringValue": "order.placed", "dataType": "String"}}
    attributes = {"once-attributes": text(json.dumps(kept))}
    deliver(aws, event("payment.captured", HOUSE), **attributes)
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "untrusted-source"
    assert aws.items("orders") == []


def test_an_event_that_was_sent_back_is_handled(aws: FakeAws) -> None:
    kept = {"type": {"stringValue": "payment.captured", "dataType": "String"}}
    attributes = {"once-attributes": text(json.dumps(kept))}
    deliver(aws, event("payment.captured", HOUSE), **attributes)
    assert aws.items("orders")[0]["paid"] == 1
