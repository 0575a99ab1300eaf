"""A message on its way to an outcome: decisions on stale reads, and business refusals."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from once.consumer import Consumer
from once.errors import PermanentError, Refusal, ValueReturned
from once.names import COMMIT_ATTRIBUTE
from once.testing import FakeAws
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.support import (
    COUNTERS,
    Note,
    SoldOut,
    amounts,
    calls,
    consumer_of,
    facts,
    failures,
    note,
    reasons,
)

KEY = {"name": "seen"}
Change = Callable[[FakeAws], None]


class Deciding:
    """A handler that reads an item and stores a decision on it. Others write in between."""

    def __init__(self, *changes: Change, write_it: bool = False, refuse: bool = False) -> None:
        self.changes = list(changes)
        self.write_it, self.refuse = write_it, refuse
        self.seen: list[Any] = []

    def start(self, start: Start, item: dict[str, Any] | None) -> FakeAws:
        consumer = consumer_of(self.handle)
        consumer.rejects(SoldOut)(self.answer)
        self.aws = start(consumer)
        if item is not None:
            self.aws.given("counters", KEY | item)
        return self.aws

    def handle(self, event: Note, tx: Transaction) -> None:
        item = tx.get(COUNTERS, KEY)
        self.seen.append(item and item["amount"])
        if self.changes:
            self.changes.pop(0)(self.aws)
        if self.refuse:
            raise SoldOut
        amount = 0 if item is None else item["amount"]
        tx.put(COUNTERS, {"name": "decision", "amount": amount})
        if self.write_it:
            tx.update(COUNTERS, KEY, "SET amount = :a", {":a": amount + 1})

    def answer(self, event: Note, refusal: SoldOut, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": "refusal", "amount": len(self.seen)})


def to(amount: int, commit: str | None = "another") -> Change:
    item = {**KEY, "amount": amount} | ({COMMIT_ATTRIBUTE: commit} if commit else {})
    return lambda aws: aws.given("counters", item)


def erase(aws: FakeAws) -> None:
    aws.dynamodb.delete_item(TableName="counters", Key={"name": {"S": "seen"}})


STORED = {"amount": 1, COMMIT_ATTRIBUTE: "first"}
PLAIN = {"amount": 1}


@pytest.mark.parametrize("write_it", [False, True])
@pytest.mark.parametrize("item", [STORED, PLAIN, None], ids=["stamped", "not stamped", "absent"])
def test_a_decision_on_unchanged_data_is_committed(
    start: Start, item: dict[str, Any] | None, *, write_it: bool
) -> None:
    deciding = Deciding(write_it=write_it)
    aws = deciding.start(start, item)
    assert failures(aws.deliver(note())) == []
    assert deciding.seen == [item and 1]
    before = item["amount"] if item else 0
    after = {"seen": before + write_it} if item or write_it else {}
    assert amounts(aws) == {"decision": before, **after}


CHANGES: dict[str, tuple[dict[str, Any] | None, list[Change], list[Any]]] = {
    "changed": (STORED, [to(5)], [1, 5]),
    "erased": (STORED, [erase], [1, None]),
    "rewritten without the library": (STORED, [to(1, None)], [1, 1]),
    "first change by the library": (PLAIN, [to(5)], [1, 5]),
    "created": (None, [to(5)], [None, 5]),
    "changed three times": (STORED, [to(2, "b"), to(3, "c"), to(4, "d")], [1, 2, 3, 4]),
}


@pytest.mark.parametrize(("item", "changes", "seen"), CHANGES.values(), ids=CHANGES)
def test_a_decision_on_stale_data_is_made_again_in_the_same_delivery(
    start: Start, item: dict[str, Any] | None, changes: list[Change], seen: list[Any]
) -> None:
    deciding = Deciding(*changes)
    aws = deciding.start(start, item)
    assert failures(aws.deliver(note())) == []
    assert deciding.seen == seen
    assert amounts(aws)["decision"] == (seen[-1] or 0)
    assert len(aws.items("dedup")) == 1


def test_a_refusal_decided_on_stale_data_is_decided_again(start: Start) -> None:
    deciding = Deciding(to(5), refuse=True)
    aws = deciding.start(start, STORED)
    assert failures(aws.deliver(note())) == []
    assert deciding.seen == [1, 5]
    assert amounts(aws)["refusal"] == 2
    assert [record["outcome"] for record in aws.items("dedup")] == ["refused"]


def test_a_decision_that_is_always_stale_is_left_to_the_queue(start: Start) -> None:
    aws = Deciding(*(to(n, str(n)) for n in range(50))).start(start, STORED)
    assert len(failures(aws.deliver(note(), fails=True))) == 1
    assert aws.items("dedup") == []
    assert "decision" not in amounts(aws)


def test_an_item_is_read_once_consistently_and_without_own_writes(start: Start) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        tx.put(COUNTERS, {**KEY, "amount": 9})
        first = tx.get(COUNTERS, KEY)
        assert first == {**KEY, **STORED}
        assert isinstance(first["amount"], Decimal)
        first["amount"] = "overwritten"
        assert tx.get(COUNTERS, KEY) == {**KEY, **STORED}

    aws = start(consumer_of(handle))
    aws.given("counters", KEY | STORED)
    with calls(aws.runtime.dynamodb) as made:
        assert failures(aws.deliver(note())) == []
    sent = [(name, parameters.get("ConsistentRead")) for name, parameters in made]
    assert sent == [("GetItem", True), ("TransactWriteItems", None)]
    assert amounts(aws) == {"seen": 9}


# Business refusals: an outcome that commits with its own record and writes.


Answer = Callable[[Note, Any, Transaction], None]


class LastOneSold(SoldOut):
    """A refusal derived from another."""


def by_condition(event: Note, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": "half done", "amount": 1})
    terms: Any = {"condition": "amount >= :one", "otherwise": LastOneSold(event.name)}
    tx.update(COUNTERS, {"name": event.name}, "SET amount = amount - :one", {":one": 1}, **terms)


def by_raising(event: Note, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": "half done", "amount": 1})
    raise LastOneSold(event.name)


def answer(event: Note, refusal: Refusal, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": f"refused {refusal}", "amount": 0})


def raising(error: Exception) -> Answer:
    def raise_it(event: Note, refusal: Refusal, tx: Transaction) -> None:
        raise error

    return raise_it


def refused_by_condition(event: Note, refusal: Refusal, tx: Transaction) -> None:
    terms: Any = {"condition": "attribute_exists(amount)", "otherwise": SoldOut()}
    tx.put(COUNTERS, {"name": "b"}, **terms)


def refusing(handler: Any, answers: dict[type[Refusal], Answer]) -> Consumer:
    """A consumer that refuses, with its answers to refusals."""
    consumer = consumer_of(handler)
    for kind, function in answers.items():
        consumer.rejects(kind)(function)
    return consumer


def outcomes(aws: FakeAws) -> list[tuple[str, str | None]]:
    return [(record["outcome"], record.get("refusal")) for record in aws.items("dedup")]


def quarantined(aws: FakeAws) -> list[tuple[str, str]]:
    """Return reason and error of each dead letter."""
    return [(found["reason"], found["error"]) for found in map(facts, aws.dead_letters())]


BOTH_WAYS = pytest.mark.parametrize("handler", [by_condition, by_raising])


@BOTH_WAYS
def test_a_refusal_commits_its_own_record_and_writes_once(start: Start, handler: Any) -> None:
    aws, event = start(refusing(handler, {LastOneSold: answer})), note()
    assert failures(aws.deliver(event)) == []
    assert amounts(aws) == {"refused a": 0}
    assert outcomes(aws) == [("refused", "LastOneSold")]
    aws.given("counters", {"name": "a", "amount": 5})
    assert failures(aws.deliver(event)) == []
    assert amounts(aws) == {"refused a": 0, "a": 5}
    assert outcomes(aws) == [("refused", "LastOneSold")]
    assert aws.dead_letters() == []


@BOTH_WAYS
def test_a_refusal_without_an_answer_is_quarantined(start: Start, handler: Any) -> None:
    aws = start(refusing(handler, {}))
    assert failures(aws.deliver(note(), fails=True)) == []
    error = "UnhandledRefusal: LastOneSold('a') has no answer: add @consumer.rejects for its class"
    assert quarantined(aws) == [("unhandled-refusal", error)]
    assert aws.items("dedup") == aws.items("counters") == []


WRONG = raising(AssertionError())


@pytest.mark.parametrize(
    "answers",
    [{Refusal: answer}, {Refusal: WRONG, LastOneSold: answer, SoldOut: WRONG}],
    ids=["the root of all", "the most specific of three"],
)
def test_a_refusal_is_answered_by_the_most_specific_class(start: Start, answers: Any) -> None:
    aws = start(refusing(by_raising, answers))
    aws.deliver(note())
    assert outcomes(aws) == [("refused", "LastOneSold")]
    assert amounts(aws) == {"refused a": 0}


TWICE = "UnhandledRefusal: the answer to a refusal was refused itself: SoldOut()"


@pytest.mark.parametrize(
    ("function", "failed", "dead_letters"),
    [
        pytest.param(raising(SoldOut()), 0, [("unhandled-refusal", TWICE)], id="refuses"),
        pytest.param(
            refused_by_condition, 0, [("unhandled-refusal", TWICE)], id="refused by a condition"
        ),
        pytest.param(
            raising(PermanentError("no")),
            0,
            [("permanent", "PermanentError: no")],
            id="fails for good",
        ),
        pytest.param(raising(ValueError()), 1, [], id="fails"),
    ],
)
def test_an_answer_that_does_not_succeed_commits_nothing(
    start: Start, function: Answer, failed: int, dead_letters: list[tuple[str, str]]
) -> None:
    aws = start(refusing(by_raising, {Refusal: function}))
    assert len(failures(aws.deliver(note(), fails=True))) == failed
    assert quarantined(aws) == dead_letters
    assert aws.items("dedup") == []


def returning(value: object) -> Any:
    """Return a function that returns a value after its writes."""

    def write(*arguments: Any) -> object:
        arguments[-1].put(COUNTERS, {"name": "a", "amount": 1})
        return value

    return write


@pytest.mark.parametrize("value", [{"sold": 1}, 0], ids=repr)
@pytest.mark.parametrize("place", ["handler", "answer"])
def test_a_returned_value_is_an_error_that_names_where_to_write_it(
    start: Start, place: str, value: object
) -> None:
    of_answer = refusing(by_raising, {Refusal: returning(value)})
    aws = start(consumer_of(returning(value)) if place == "handler" else of_answer)
    text = (
        f"returning.<locals>.write returned a value ({type(value).__name__}), which would be lost: "
        "write it with tx.put or tx.update, publish it with tx.publish, or return nothing"
    )
    with pytest.raises(ValueReturned, match=f"(?m)^{re.escape(text)}$"):
        aws.deliver(note())
    assert aws.items("dedup") == aws.items("counters") == aws.dead_letters() == []
    aws.deliver(note(), receive_count=5, fails=True)
    assert set(reasons(aws)) == {"retries-exhausted"}
