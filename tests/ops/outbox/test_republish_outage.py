"""After an outage that outlasts the stream, events are republished from the table."""

import time
from collections.abc import Iterator

import pytest
from msgspec import Struct

from once.consumer import Consumer
from once.events.outgoing import events_in
from once.names import StackOutput
from once.outbox.relay import Publisher
from once.testing import FakeAws, cloud_event
from once.transaction import Transaction
from tests.ops.cloud import Cloud
from tests.ops.notes import DAY, HOUR
from tests.ops.output import stdout_of

CONSUMER = Consumer("orders")
"""Publishes an event for each draft, and stands for the consumer of that event as well."""
STOCK = CONSUMER.table("stock")


class Order(Struct):
    sku: str


@CONSUMER.handles("order.drafted", Order)
def place(order: Order, tx: Transaction) -> None:
    tx.publish("order.placed", order)


@CONSUMER.handles("order.placed", Order)
def reserve(order: Order, tx: Transaction) -> None:
    tx.update(STOCK, {"sku": order.sku}, "ADD reserved :one", {":one": 1})


@pytest.fixture
def aws(cloud: Cloud) -> Iterator[FakeAws]:
    """The consumer, with its dedup table in the deployment."""
    with FakeAws(
        CONSUMER,
        {"stock": "sku"},
        publishers={"order.placed": "orders"},
        publishes=("order.placed",),
        dedup_window_seconds=45 * DAY,
    ) as fake:
        cloud.state[StackOutput.DEDUP_TABLE] = "dedup"
        yield fake


def relay(cloud: Cloud, aws: FakeAws) -> None:
    """Publish every event in the table, like the relay before the outage."""
    items = aws.dynamodb.scan(TableName="dedup")["Items"]
    topic = Publisher(cloud.sns, cloud.service[StackOutput.EVENTS_TOPIC])
    assert topic.publish([event for item in items for event in events_in(item)]) == []


def work_off(cloud: Cloud, aws: FakeAws) -> int:
    """Let the consumer process the published events; return their number."""
    bodies = [*cloud.take("inventory").elements()]
    assert aws.deliver(*bodies) == {"batchItemFailures": []}
    return len(bodies)


def test_o3_after_an_outage_of_a_day_a_consumer_gets_the_events_that_it_had_not_got_once(
    cloud: Cloud, aws: FakeAws
) -> None:
    aws.time = time.time() - 26 * HOUR
    aws.deliver(*(cloud_event("order.drafted", {"sku": sku}) for sku in ("before", "also before")))
    relay(cloud, aws)
    assert work_off(cloud, aws) == 2
    aws.time += HOUR
    aws.deliver(*(cloud_event("order.drafted", {"sku": f"out-{n}"}) for n in range(12)))
    aws.time = None
    stdout_of("outbox", "republish", "--since", "27h")
    assert work_off(cloud, aws) == 14
    expected = {"before", "also before", *(f"out-{n}" for n in range(12))}
    reserved = {item["sku"]: item["reserved"] for item in aws.items("stock")}
    assert reserved == dict.fromkeys(expected, 1)
    assert aws.dead_letters() == []
