"""`tx.publish`: an event commits with its cause, or neither does."""

from functools import partial
from typing import Any

import pytest

from once import Policy
from once.commit.result import COMMITTED
from once.consumer import Consumer
from once.errors import InvalidWrite
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.support import (
    PUBLISHES,
    Bench,
    Note,
    SoldOut,
    consumer_of,
    count,
    failures,
    note,
    offline,
    reasons,
)

NOW = 1_800_000_000.5


def publish(event: Note, tx: Transaction) -> None:
    count(event, tx)
    tx.publish("counted", event, subject=event.name)


def test_an_event_commits_with_its_cause(start: Start) -> None:
    aws = start(consumer_of(publish), publishes=PUBLISHES)
    aws.time = NOW
    assert failures(aws.deliver(note("a", 3))) == []
    [body] = aws.published()
    assert (body["type"], body["subject"]) == ("counted", "a")
    assert body["data"] == {"name": "a", "amount": 3}
    assert body["time"] == "2027-01-15T08:00:00.500+00:00"


def test_events_keep_their_order_and_the_data_that_they_were_published_with() -> None:
    tx, data = offline(), {"number": 0}
    for number in range(3):
        data["number"] = number
        tx.publish("counted", data)
    assert [event.data["number"] for event in tx.drafts] == [0, 1, 2]


def test_a_record_has_an_outbox_if_its_transaction_has_events(bench: Bench) -> None:
    tx = bench.transaction("without writes")
    tx.publish("counted", {})
    assert bench.commit(tx) == [COMMITTED]
    assert bench.commit(bench.counting("without events")) == [COMMITTED]
    assert [body["type"] for body in bench.aws.published()] == ["counted"]
    with_outbox = [item["pk"] for item in bench.aws.items("dedup") if "outbox" in item]
    assert with_outbox == ["notes#without writes"]


def test_a_type_that_the_consumer_does_not_declare_is_refused() -> None:
    with pytest.raises(InvalidWrite, match=r"unheard.*add it to publishes= of the consumer's decl"):
        offline().publish("unheard", {})


def test_the_answer_to_a_refusal_replaces_the_events_of_the_handler(start: Start) -> None:
    def refuse(event: Note, tx: Transaction) -> None:
        publish(event, tx)
        raise SoldOut

    def answer(event: Note, refusal: SoldOut, tx: Transaction) -> None:
        tx.publish("counted", {"refused": True})

    consumer = consumer_of(refuse)
    consumer.rejects(SoldOut)(answer)
    aws = start(consumer, publishes=PUBLISHES)
    assert failures(aws.deliver(note())) == []
    assert [body["data"] for body in aws.published()] == [{"refused": True}]
    assert aws.items("counters") == []


BAD: dict[str, tuple[list[Any], str]] = {
    "not a number": ([float("nan")], "invalid-write"),
    "a lone surrogate": (["\ud800"], "invalid-write"),
    "too large an event": (["x" * 300_000], "too-large"),
    "events too large for their record": (["x" * 210_000] * 2, "too-large"),
}


@pytest.mark.parametrize(("events", "reason"), BAD.values(), ids=BAD)
def test_an_event_that_cannot_be_published_is_quarantined_and_writes_nothing(
    start: Start, events: list[Any], reason: str
) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        count(event, tx)
        for data in events:
            tx.publish("counted", data)

    aws = start(consumer_of(handle), publishes=PUBLISHES)
    assert failures(aws.deliver(note(), fails=True)) == []
    assert reasons(aws) == [reason]
    assert aws.items("dedup") == aws.items("counters") == []


CHARGE = Consumer("notes").effect("charge", Note, policy=Policy.AT_LEAST_ONCE)(lambda *_: None)


@pytest.mark.parametrize("event_first", [True, False])
def test_an_event_beside_an_effect_is_refused(*, event_first: bool) -> None:
    tx = offline()
    first, second = partial(tx.publish, "counted", {}), partial(tx.perform, CHARGE, Note("a"))
    if not event_first:
        first, second = second, first
    first()
    beside = "an event beside an effect: publish it in the function that completes the effect"
    with pytest.raises(InvalidWrite, match=beside):
        second()
