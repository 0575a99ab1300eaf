"""After an outage that outlasts the stream, events are republished from the table."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import Struct

from once.consumer import Consumer
from once.events.outgoing import events_in
from once.handlers.transaction import Transaction
from once.outbox._sns_publisher import Publisher
from once.schema import StackOutput
from once.testing import FakeAws, FakeContext, cloud_event
from once.testing.events import sqs_record
from tests.ops.letters import HOUR
from tests.ops.output import stdout_of
from tests.ops.support import REGION, Cloud

UPSTREAM, DOWNSTREAM = Consumer("orders"), Consumer("inventory")
STOCK = DOWNSTREAM.table("stock")


class Order(Struct):
    sku: str


@UPSTREAM.handles("order.drafted", Order)
def place(order: Order, tx: Transaction) -> None:
    tx.publish("order.placed", order)


@DOWNSTREAM.handles("order.placed", Order)
def reserve(order: Order, tx: Transaction) -> None:
    tx.update(STOCK, {"sku": order.sku}, "ADD reserved :one", {":one": 1})


@pytest.fixture
def aws(cloud: Cloud) -> Iterator[FakeAws]:
    """The consumer that publishes, and its records in the table of the deployment."""
    settings: dict[str, Any] = {
        "publishes": ("order.placed",),
        "dedup_window_seconds": 45 * 24 * 60 * 60,
    }
    with FakeAws(UPSTREAM, {"stock": "sku"}, **settings) as fake:
        cloud.state[StackOutput.DEDUP_TABLE] = "dedup"
        yield fake


def relayed(cloud: Cloud, aws: FakeAws) -> None:
    """Publish every event in the table, like the relay before the outage."""
    items = aws.dynamodb.scan(TableName="dedup")["Items"]
    topic = Publisher(cloud.sns, cloud.service[StackOutput.EVENTS_TOPIC])
    assert topic.publish([event for item in items for event in events_in(item)]) == []


def work_off(cloud: Cloud, aws: FakeAws) -> int:
    """Let the downstream consumer process its queue; return the number of messages."""
    settings = replace(
        aws.runtime.settings,
        consumer="inventory",
        event_types=("order.placed",),
        sources={"order.placed": ("/once/orders",)},
        publishes=(),
    )
    bodies = [*cloud.take("inventory").elements()]
    handle = DOWNSTREAM.bound_to(replace(aws.runtime, settings=settings))
    handle({"Records": [_received(body, n) for n, body in enumerate(bodies)]}, FakeContext())
    return len(bodies)


def _received(body: str, number: int) -> dict[str, Any]:
    message: Mapping[str, Any] = {
        "MessageId": f"m-{number}",
        "ReceiptHandle": "r",
        "Body": body,
        "MD5OfBody": "x",
        "Attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": str(int(time.time() * 1000)),
        },
    }
    return sqs_record(message, f"arn:aws:sqs:{REGION}:123456789012:once-inventory")


def test_o3_after_an_outage_of_a_day_a_consumer_gets_the_events_that_it_had_not_got_once(
    cloud: Cloud, aws: FakeAws
) -> None:
    aws.time = time.time() - 26 * HOUR
    aws.deliver(*(cloud_event("order.drafted", {"sku": sku}) for sku in ("before", "also before")))
    relayed(cloud, aws)
    assert work_off(cloud, aws) == 2
    aws.time += HOUR
    aws.deliver(*(cloud_event("order.drafted", {"sku": f"out-{n}"}) for n in range(12)))
    aws.time = None
    stdout_of("outbox", "republish", "--since", "27h")
    assert work_off(cloud, aws) == 14
    expected = {"before", "also before", *(f"out-{n}" for n in range(12))}
    assert {item["sku"]: item["reserved"] for item in aws.items("stock")} == dict.fromkeys(
        expected, 1
    )
    assert aws.dead_letters() == []
