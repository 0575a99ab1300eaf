"""Business refusals: an outcome that commits with its own record and writes."""

from collections.abc import Callable
from typing import Any

import pytest

from once.consumer import Consumer
from once.errors import PermanentError, Refusal, ValueReturned
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
    failures,
    note,
    reasons,
)

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


BOTH_WAYS = pytest.mark.parametrize("handler", [by_condition, by_raising])


@BOTH_WAYS
def test_a_refusal_commits_its_own_record_and_writes_once(start: Start, handler: Any) -> None:
    aws, event = start(refusing(handler, {LastOneSold: answer})), note()
    assert failures(aws.deliver(event)) == []
    assert amounts(aws) == {"refused a": 0}
    assert outcomes(aws) == [("refused", "LastOneSold")]
    aws.put("counters", {"name": "a", "amount": 5})
    assert failures(aws.deliver(event)) == []
    assert amounts(aws) == {"refused a": 0, "a": 5}
    assert outcomes(aws) == [("refused", "LastOneSold")]
    assert aws.dead_letters() == []


def test_a_refused_event_twice_in_a_batch_is_refused_once(start: Start) -> None:
    aws, event = start(refusing(by_condition, {LastOneSold: answer})), note()
    with calls(aws.runtime.dynamodb) as made:
        assert failures(aws.deliver(event, event)) == []
    assert len(made) == 2  # the refused commit, and the refusal's
    assert outcomes(aws) == [("refused", "LastOneSold")]


def test_a_condition_that_holds_is_no_refusal(start: Start) -> None:
    aws = start(refusing(by_condition, {LastOneSold: answer}))
    aws.put("counters", {"name": "a", "amount": 1})
    assert failures(aws.deliver(note(), note())) == []
    assert amounts(aws) == {"a": 0, "half done": 1, "refused a": 0}
    assert sorted(outcome for outcome, _ in outcomes(aws)) == ["accepted", "refused"]


@BOTH_WAYS
def test_a_refusal_without_an_answer_is_quarantined(start: Start, handler: Any) -> None:
    aws = start(refusing(handler, {}))
    assert failures(aws.deliver(note(), fails=True)) == []
    assert reasons(aws) == ["unhandled-refusal"]
    assert aws.items("dedup") == aws.items("counters") == []


WRONG = raising(AssertionError())


@pytest.mark.parametrize(
    "answers",
    [
        {LastOneSold: answer},
        {SoldOut: answer},
        {Refusal: answer},
        {Refusal: WRONG, LastOneSold: answer, SoldOut: WRONG},
    ],
    ids=["its class", "its base class", "the root of all", "the most specific of three"],
)
def test_a_refusal_is_answered_by_the_most_specific_class(start: Start, answers: Any) -> None:
    aws = start(refusing(by_raising, answers))
    aws.deliver(note())
    assert outcomes(aws) == [("refused", "LastOneSold")]
    assert amounts(aws) == {"refused a": 0}


@pytest.mark.parametrize(
    ("function", "failed", "reason"),
    [
        pytest.param(raising(SoldOut()), 0, ["unhandled-refusal"], id="refuses"),
        pytest.param(refused_by_condition, 0, ["unhandled-refusal"], id="refused by a condition"),
        pytest.param(raising(PermanentError("no way")), 0, ["permanent"], id="fails for good"),
        pytest.param(raising(ValueError()), 1, [], id="fails"),
    ],
)
def test_an_answer_that_does_not_succeed_commits_nothing(
    start: Start, function: Answer, failed: int, reason: list[str]
) -> None:
    aws = start(refusing(by_raising, {Refusal: function}))
    assert len(failures(aws.deliver(note(), fails=True))) == failed
    assert reasons(aws) == reason
    assert aws.items("dedup") == []


def returning(value: object) -> Any:
    """Return a function that returns a value after its writes."""

    def write(*arguments: Any) -> object:
        arguments[-1].put(COUNTERS, {"name": "a", "amount": 1})
        return value

    return write


@pytest.mark.parametrize("value", [{"sold": 1}, [], False, 0], ids=repr)
@pytest.mark.parametrize("place", ["handler", "answer"])
def test_a_returned_value_is_an_error_that_names_where_to_write_it(
    start: Start, place: str, value: object
) -> None:
    of_answer = refusing(by_raising, {Refusal: returning(value)})
    aws = start(consumer_of(returning(value)) if place == "handler" else of_answer)
    with pytest.raises(ValueReturned, match=r"write returned a value .*: write it with tx\.put"):
        aws.deliver(note())
    assert aws.items("dedup") == aws.items("counters") == aws.dead_letters() == []
    aws.deliver(note(), receive_count=5, fails=True)
    assert set(reasons(aws)) == {"retries-exhausted"}


def test_an_answer_gets_the_event_and_the_refusal_and_may_write_an_item_of_the_handler(
    start: Start,
) -> None:
    got: list[Any] = []

    def overwrite(event: Note, refusal: Refusal, tx: Transaction) -> None:
        got.extend([event, refusal.args, tx.event.type])
        tx.put(COUNTERS, {"name": "half done", "amount": 7})

    aws = start(refusing(by_raising, {Refusal: overwrite}))
    aws.deliver(note("a", 3))
    assert got == [Note("a", 3), ("a",), "noted"]
    assert amounts(aws) == {"half done": 7}
