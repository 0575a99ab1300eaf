"""`tx.publish`: an event commits with its cause, or neither does."""

import json
from typing import Any

import pytest

from once import Policy
from once.commit.result import COMMITTED
from once.consumer import Consumer
from once.errors import InvalidWrite, TooLarge
from once.events.outgoing import events_in
from once.handlers.transaction import Transaction
from once.testing import FakeAws
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


def telling(event: Note, tx: Transaction) -> None:
    count(event, tx)
    tx.publish("counted", event, subject=event.name)


def publishing(data: Any) -> Consumer:
    def handle(event: Note, tx: Transaction) -> None:
        count(event, tx)
        tx.publish("counted", data)

    return consumer_of(handle)


def bodies(aws: FakeAws) -> list[dict[str, Any]]:
    """The events that the records in the table hold."""
    items = aws.dynamodb.scan(TableName="dedup")["Items"]
    return [json.loads(event.body) for item in items for event in events_in(item)]


def test_an_event_commits_with_its_cause(start: Start) -> None:
    consumer = consumer_of(telling)
    aws = start(consumer, publishes=PUBLISHES)
    aws.time = NOW
    assert failures(aws.deliver(note("a", 3))) == []
    [body] = bodies(aws)
    assert (body["type"], body["subject"]) == ("counted", "a")
    assert body["data"] == {"name": "a", "amount": 3}
    assert body["time"] == "2027-01-15T08:00:00.500+00:00"


def test_an_event_comes_in_the_order_in_which_it_was_published() -> None:
    tx = offline()
    for number in range(3):
        tx.publish("counted", {"number": number})
    assert [event.data["number"] for event in tx.drafts] == [0, 1, 2]


def test_data_is_published_as_it_was_when_it_was_published() -> None:
    tx, data = offline(), {"amount": 1}
    tx.publish("counted", data)
    data["amount"] = 2
    assert tx.drafts[0].data == {"amount": 1}


def test_an_event_without_writes_is_committed(bench: Bench) -> None:
    tx = bench.transaction()
    tx.publish("counted", {})
    assert bench.commit(tx) == [COMMITTED]
    assert [body["type"] for body in bodies(bench.aws)] == ["counted"]


def test_a_record_without_events_has_no_outbox(bench: Bench) -> None:
    bench.commit(bench.counting())
    assert [item for item in bench.aws.items("dedup") if "outbox" in item] == []


def test_a_type_that_the_consumers_line_does_not_name_is_refused() -> None:
    with pytest.raises(InvalidWrite, match=r"unheard.*add it to publishes= of the consumer's decl"):
        offline().publish("unheard", {})


def test_what_a_refused_handler_published_is_not(start: Start) -> None:
    def refused(event: Note, tx: Transaction) -> None:
        telling(event, tx)
        raise SoldOut

    consumer = consumer_of(refused)

    @consumer.rejects(SoldOut)
    def answer(event: Note, refusal: SoldOut, tx: Transaction) -> None:
        tx.publish("counted", {"refused": True})

    aws = start(consumer, publishes=PUBLISHES)
    assert failures(aws.deliver(note())) == []
    assert [body["data"] for body in bodies(aws)] == [{"refused": True}]
    assert aws.items("counters") == []


BAD: dict[str, tuple[Any, str]] = {
    "not a number": (float("nan"), "invalid-write"),
    "infinity": ({"amount": float("inf")}, "invalid-write"),
    "a lone surrogate": ("\ud800", "invalid-write"),
    "an object": (object(), "invalid-write"),
    "an endless number": (10**5000, "invalid-write"),
    "too large an event": ("x" * 300_000, "too-large"),
}


@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD)
def test_what_cannot_be_published_is_quarantined_with_nothing_written(
    start: Start, data: Any, reason: str
) -> None:
    aws = start(publishing(data), publishes=PUBLISHES)
    assert failures(aws.deliver(note())) == []
    assert reasons(aws) == [reason]
    assert aws.items("dedup") == aws.items("counters") == []


def test_events_too_large_for_their_record_together_are_quarantined(start: Start) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        count(event, tx)
        for _ in range(2):
            tx.publish("counted", "x" * 210_000)

    aws = start(consumer_of(handle), publishes=PUBLISHES)
    assert failures(aws.deliver(note())) == []
    assert reasons(aws) == ["too-large"]
    assert aws.items("dedup") == aws.items("counters") == []


def test_a_record_over_400_kb_is_told_with_the_remedy(bench: Bench) -> None:
    tx = bench.transaction()
    for _ in range(2):
        tx.publish("counted", "x" * 210_000)
    [verdict] = bench.commit(tx)
    assert isinstance(verdict.cause, TooLarge)
    assert "the dedup record has 42" in str(verdict.cause)
    assert "publish less" in str(verdict.cause)


CHARGES = Consumer("notes")
CHARGE = CHARGES.effect("charge", Note, policy=Policy.AT_LEAST_ONCE)(lambda request, call: None)
BESIDE = "an event beside an effect: publish it in the function that completes the effect"


def test_an_event_after_an_effect_is_refused() -> None:
    tx = offline()
    tx.perform(CHARGE, Note("a"))
    with pytest.raises(InvalidWrite, match=BESIDE):
        tx.publish("counted", {})


def test_an_effect_after_an_event_is_refused() -> None:
    tx = offline()
    tx.publish("counted", {})
    with pytest.raises(InvalidWrite, match=BESIDE):
        tx.perform(CHARGE, Note("a"))
