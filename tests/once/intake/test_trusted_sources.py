"""The source of an event: a producer's event is never taken for a consumer's."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct

from once import Consumer, Transaction
from once.testing import FakeAws, cloud_event
from tests.once.support import facts

CONSUMER = Consumer("orders")
ORDERS = CONSUMER.table("orders")
PAYMENTS = "/once/payments"


class Order(Struct):
    order_id: str


@CONSUMER.handles("order.placed", Order)
@CONSUMER.handles("payment.captured", Order)
def store(event: Order, tx: Transaction) -> None:
    tx.put(ORDERS, {"order_id": event.order_id, "type": tx.event.type})


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    publishers = {"payment.captured": "payments"}
    with FakeAws(CONSUMER, {"orders": "order_id"}, publishers=publishers) as fake:
        yield fake


def deliver(aws: FakeAws, event_type: str, source: str, **attributes: Any) -> None:
    """Deliver one message with attributes, as a topic does."""
    body = json.dumps(cloud_event(event_type, {"order_id": "o-1"}, source=source))
    aws.sqs.send_message(QueueUrl=aws.queue, MessageBody=body, MessageAttributes=attributes)
    aws.deliver(fails=None)


def text(value: str, data_type: str = "String") -> dict[str, Any]:
    return {"DataType": data_type, "StringValue": value}


def redriven(event_type: str) -> dict[str, Any]:
    """The attributes of a message that was dead-lettered and sent back."""
    kept = {"type": {"stringValue": event_type, "dataType": "String"}}
    return {"once-attributes": text(json.dumps(kept))}


def quarantined(aws: FakeAws) -> str:
    """The error of the only message, which was quarantined without a record."""
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "untrusted-source"
    # A record would take the key before the consumer's own event comes.
    assert aws.items("orders") == aws.items("dedup") == []
    return facts(letter)["error"]


@pytest.mark.parametrize("source", ["/shop", "/once", "/onceler/x", f"{PAYMENTS}x", "/once/other"])
def test_s2_an_internal_event_from_another_source_is_quarantined(aws: FakeAws, source: str) -> None:
    deliver(aws, "payment.captured", source)
    assert "payment.captured may come from /once/payments only" in quarantined(aws)


def test_s2_an_external_event_under_a_consumers_source_is_quarantined(aws: FakeAws) -> None:
    deliver(aws, "order.placed", PAYMENTS)
    assert "sources under /once/ are those of consumers" in quarantined(aws)


ROUTED_BY = {
    "an external type": {"type": text("order.placed")},
    "several types": {"type": text('["order.placed", "payment.captured"]', "String.Array")},
    "bytes": {"type": {"DataType": "Binary", "BinaryValue": b"payment.captured"}},
    "an external type, redriven": redriven("order.placed"),
}


@pytest.mark.parametrize("attributes", ROUTED_BY.values(), ids=ROUTED_BY)
def test_s2_an_internal_event_that_was_delivered_for_another_type_is_quarantined(
    aws: FakeAws, attributes: dict[str, Any]
) -> None:
    deliver(aws, "payment.captured", PAYMENTS, **attributes)
    assert "attribute `type` is not payment.captured" in quarantined(aws)


@pytest.mark.parametrize(
    ("event_type", "source", "attributes"),
    [
        pytest.param("order.placed", "/any", {}, id="external"),
        pytest.param("payment.captured", PAYMENTS, {}, id="internal"),
        pytest.param("payment.captured", PAYMENTS, {"type": text("payment.captured")}, id="routed"),
        pytest.param("payment.captured", PAYMENTS, redriven("payment.captured"), id="redriven"),
    ],
)
def test_an_event_of_its_own_source_is_handled(
    aws: FakeAws, event_type: str, source: str, attributes: dict[str, Any]
) -> None:
    deliver(aws, event_type, source, **attributes)
    assert [item["type"] for item in aws.items("orders")] == [event_type]
