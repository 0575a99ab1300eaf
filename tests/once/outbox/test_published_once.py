"""From a commit to the consumer downstream: an event that is published repeatedly counts once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from once.consumer import Consumer
from once.events.outgoing import events_in
from once.names import CLOCK_MARGIN_SECONDS
from once.testing import FakeAws, FakeContext
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.outbox.relaying import THEN, RelayHarness, change
from tests.once.support import Note, amounts, consumer_of, count, failures, note, record

WINDOW = 86_400
DOWNSTREAM = Consumer("downstream")
DOWNSTREAM.table("counters")
DOWNSTREAM.handles("counted", Note)(count)


def publish_twice(event: Note, tx: Transaction) -> None:
    for _ in range(2):
        tx.publish("counted", event)


@pytest.fixture
def aws(start: Start) -> FakeAws:
    """An AWS whose consumer publishes two events for each one that it gets."""
    fake = start(consumer_of(publish_twice), publishes=("counted",), dedup_window_seconds=WINDOW)
    fake.time = THEN
    return fake


def stored(aws: FakeAws) -> list[Mapping[str, Any]]:
    return list(aws.dynamodb.scan(TableName="dedup")["Items"])


def deliver_downstream(aws: FakeAws, bodies: Sequence[str]) -> None:
    """Deliver bodies to the consumer downstream, which shares the dedup table."""
    settings = replace(
        aws.runtime.settings,
        consumer="downstream",
        event_types=("counted",),
        sources={"counted": ("/once/notes",)},
        publishes=(),
    )
    handle = DOWNSTREAM.bound_to(replace(aws.runtime, settings=settings))
    messages = [record(body, f"m-{n}") for n, body in enumerate(bodies)]
    assert failures(handle({"Records": messages}, FakeContext())) == []


def test_o1_events_that_are_relayed_twice_count_once(aws: FakeAws, harness: RelayHarness) -> None:
    aws.deliver(note("a", 3), note("b", 4))
    records = [change(item) for item in stored(aws)]
    harness.handle(*records)
    harness.handle(*records)
    bodies = harness.published()
    assert (len(bodies), len(set(bodies))) == (8, 4)
    for now in (THEN, THEN + WINDOW - 1):
        aws.time = now
        deliver_downstream(aws, bodies)
        assert amounts(aws) == {"a": 6, "b": 8}
    assert aws.dead_letters() == []


def test_o5_a_record_put_over_an_expired_one_is_published(
    aws: FakeAws, harness: RelayHarness
) -> None:
    aws.deliver(note("a", event_id="e"))
    [before] = stored(aws)
    aws.time = THEN + WINDOW + CLOCK_MARGIN_SECONDS + 1
    aws.deliver(note("a", 9, event_id="e"))
    [after] = stored(aws)
    harness.handle(change(after, before))
    assert harness.published() == [event.body for event in events_in(after)]
    assert before["commit"] != after["commit"]
    assert [e.id for e in events_in(before)] == [e.id for e in events_in(after)]
