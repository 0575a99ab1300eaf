"""From a commit to whoever hears of it: published however often, an event counts once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from once.consumer import Consumer
from once.events.outgoing import events_in
from once.handlers.transaction import Transaction
from once.schema import CLOCK_MARGIN_SECONDS
from once.testing import FakeAws, FakeContext, answer_lost, inject
from tests.in_memory import Start
from tests.once.outbox.relaying import Station, change
from tests.once.support import COUNTERS, Note, amounts, consumer_of, failures, note, record

WINDOW = 86_400
THEN = 1_800_000_000
LISTENER = Consumer("listener")
LISTENER.table("counters")


@LISTENER.handles("counted", Note)
def listen(event: Note, tx: Transaction) -> None:
    name = f"{event.name}, heard"
    tx.update(COUNTERS, {"name": name}, "ADD amount :a", {":a": event.amount})


def telling(event: Note, tx: Transaction) -> None:
    for _ in range(2):
        tx.publish("counted", event)


@pytest.fixture
def aws(start: Start) -> FakeAws:
    """An AWS whose consumer publishes two events for each one that it gets."""
    fake = start(consumer_of(telling), publishes=("counted",), dedup_window_seconds=WINDOW)
    fake.time = THEN
    return fake


def stored(aws: FakeAws) -> list[Mapping[str, Any]]:
    """The records of the consumer that publishes."""
    items = aws.dynamodb.scan(TableName="dedup")["Items"]
    return [item for item in items if item["pk"]["S"].startswith("notes#")]


def heard_by_listener(aws: FakeAws, bodies: Sequence[str]) -> None:
    """Deliver bodies to the consumer downstream, which shares the dedup table."""
    settings = replace(
        aws.runtime.settings,
        consumer="listener",
        event_types=("counted",),
        sources={"counted": ("/once/notes",)},
        publishes=(),
    )
    handle = LISTENER.bound_to(replace(aws.runtime, settings=settings))
    messages = [record(body, f"m-{n}") for n, body in enumerate(bodies)]
    assert failures(handle({"Records": messages}, FakeContext())) == []


def test_o1_events_that_are_relayed_twice_count_once(aws: FakeAws) -> None:
    station = Station()
    aws.deliver(note("a", 3), note("b", 4))
    records = [change(item) for item in stored(aws)]
    station.handle(*records)
    station.handle(*records)
    bodies = station.heard()
    assert (len(bodies), len(set(bodies))) == (8, 4)
    heard_by_listener(aws, bodies)
    assert amounts(aws) == {"a, heard": 6, "b, heard": 8}
    assert aws.dead_letters() == []


def test_o1_events_that_are_relayed_days_apart_count_once(aws: FakeAws) -> None:
    aws.deliver(note("a", 3))
    bodies = [event.body for event in events_in(stored(aws)[0])]
    heard_by_listener(aws, bodies)
    aws.time = THEN + WINDOW - 1
    heard_by_listener(aws, bodies)
    assert amounts(aws) == {"a, heard": 6}


def test_o1_an_event_whose_commit_was_lost_is_published_from_the_record_that_is_there(
    aws: FakeAws,
) -> None:
    with inject(aws.runtime.dynamodb, "TransactWriteItems", answer_lost()) as left:
        aws.deliver(note("a", event_id="e"))
    assert left == []
    [before] = stored(aws)
    aws.time = THEN + 60
    aws.deliver(note("a", event_id="e"))
    assert stored(aws) == [before]


def test_o1_a_handler_that_runs_again_in_another_commit_gives_its_events_the_same_ids(
    aws: FakeAws,
) -> None:
    aws.deliver(note("a", event_id="e"))
    [before] = stored(aws)
    aws.time = THEN + WINDOW + CLOCK_MARGIN_SECONDS + 1
    aws.deliver(note("a", event_id="e"))
    [after] = stored(aws)
    assert before["commit"] != after["commit"]
    assert [e.id for e in events_in(before)] == [e.id for e in events_in(after)]


def test_o1_two_events_of_one_record_are_two(aws: FakeAws) -> None:
    aws.deliver(note("a"))
    [item] = stored(aws)
    assert len({event.id for event in events_in(item)}) == 2


def test_o5_a_record_put_over_an_expired_one_is_published(aws: FakeAws) -> None:
    station = Station()
    aws.deliver(note("a", event_id="e"))
    [before] = stored(aws)
    aws.time = THEN + WINDOW + CLOCK_MARGIN_SECONDS + 1
    aws.deliver(note("a", 9, event_id="e"))
    [after] = stored(aws)
    station.handle(change(after, before))
    assert station.heard() == [event.body for event in events_in(after)]
