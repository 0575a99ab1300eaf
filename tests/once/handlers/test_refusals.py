"""Business refusals: an outcome, committed with a record and writes of its own."""

from typing import Any

import pytest

from once.consumer import Consumer
from once.errors import PermanentError, Refusal
from once.handlers.transaction import Transaction
from once.testing import FakeAws
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


class LastOneSold(SoldOut):
    """A refusal more special than the other."""


def by_condition(event: Note, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": "half done", "amount": 1})
    terms: Any = {"condition": "amount >= :one", "otherwise": LastOneSold(event.name)}
    tx.update(COUNTERS, {"name": event.name}, "SET amount = amount - :one", {":one": 1}, **terms)


def by_raising(event: Note, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": "half done", "amount": 1})
    raise LastOneSold(event.name)


def answer(event: Note, refusal: Refusal, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": f"refused {refusal}", "amount": 0})


def refusing(handler: Any = by_raising, **answers: Any) -> Consumer:
    """A consumer that refuses, with an answer for each of these refusals."""
    consumer = consumer_of(handler)
    kinds = {"Refusal": Refusal, "SoldOut": SoldOut, "LastOneSold": LastOneSold}
    for name, function in answers.items():
        consumer.rejects(kinds[name])(function)
    return consumer


def outcomes(aws: FakeAws) -> list[tuple[str, str | None]]:
    return [(record["outcome"], record.get("refusal")) for record in aws.items("dedup")]


HANDLERS = pytest.mark.parametrize("handler", [by_condition, by_raising])


@HANDLERS
def test_a_refusal_commits_its_own_record_and_writes_and_nothing_else(
    start: Start, handler: Any
) -> None:
    aws = start(refusing(handler, LastOneSold=answer))
    assert failures(aws.deliver(note())) == []
    assert amounts(aws) == {"refused a": 0}
    assert outcomes(aws) == [("refused", "LastOneSold")]
    assert aws.dead_letters() == []


@HANDLERS
def test_a_refused_event_that_comes_again_is_a_duplicate(start: Start, handler: Any) -> None:
    aws = start(refusing(handler, LastOneSold=answer))
    event = note()
    aws.deliver(event)
    aws.put("counters", {"name": "a", "amount": 5})
    assert failures(aws.deliver(event)) == []
    assert outcomes(aws) == [("refused", "LastOneSold")]
    assert amounts(aws) == {"refused a": 0, "a": 5}


def test_a_refused_event_twice_in_a_batch_is_refused_once(start: Start) -> None:
    aws = start(refusing(by_condition, LastOneSold=answer))
    event = note()
    with calls(aws.runtime.dynamodb) as made:
        assert failures(aws.deliver(event, event)) == []
    assert len(made) == 2  # what was refused, and the refusal
    assert outcomes(aws) == [("refused", "LastOneSold")]


def test_a_condition_that_holds_is_no_refusal(start: Start) -> None:
    aws = start(refusing(by_condition, LastOneSold=answer))
    aws.put("counters", {"name": "a", "amount": 1})
    assert failures(aws.deliver(note(), note())) == []
    assert amounts(aws) == {"a": 0, "half done": 1, "refused a": 0}
    assert sorted(outcome for outcome, _ in outcomes(aws)) == ["accepted", "refused"]


@HANDLERS
def test_a_refusal_that_nobody_answers_is_quarantined(start: Start, handler: Any) -> None:
    aws = start(refusing(handler))
    assert failures(aws.deliver(note())) == []
    assert reasons(aws) == ["unhandled-refusal"]
    assert aws.items("dedup") == aws.items("counters") == []


@pytest.mark.parametrize("kinds", [["LastOneSold"], ["SoldOut"], ["Refusal"]])
def test_an_answer_serves_the_special_refusals_too(start: Start, kinds: list[str]) -> None:
    aws = start(refusing(**dict.fromkeys(kinds, answer)))
    aws.deliver(note())
    assert outcomes(aws) == [("refused", "LastOneSold")]


def test_of_several_answers_the_most_special_one_is_given(start: Start) -> None:
    def general(event: Note, refusal: Refusal, tx: Transaction) -> None:
        raise AssertionError

    aws = start(refusing(Refusal=general, LastOneSold=answer, SoldOut=general))
    aws.deliver(note())
    assert amounts(aws) == {"refused a": 0}


def test_an_answer_that_refuses_is_quarantined(start: Start) -> None:
    def refuses_too(event: Note, refusal: Refusal, tx: Transaction) -> None:
        raise SoldOut

    aws = start(refusing(Refusal=refuses_too))
    assert failures(aws.deliver(note())) == []
    assert reasons(aws) == ["unhandled-refusal"]
    assert aws.items("dedup") == []


def test_an_answer_refused_by_a_condition_is_quarantined(start: Start) -> None:
    def refused_too(event: Note, refusal: Refusal, tx: Transaction) -> None:
        terms: Any = {"condition": "attribute_exists(amount)", "otherwise": SoldOut()}
        tx.put(COUNTERS, {"name": "b"}, **terms)

    aws = start(refusing(Refusal=refused_too))
    assert failures(aws.deliver(note())) == []
    assert reasons(aws) == ["unhandled-refusal"]
    assert aws.items("dedup") == []


def test_an_answer_that_fails_is_tried_again(start: Start) -> None:
    def fails(event: Note, refusal: Refusal, tx: Transaction) -> None:
        raise ValueError

    aws = start(refusing(Refusal=fails))
    assert len(failures(aws.deliver(note()))) == 1
    assert aws.items("dedup") == []


def test_an_answer_may_quarantine_the_message(start: Start) -> None:
    def gives_up(event: Note, refusal: Refusal, tx: Transaction) -> None:
        raise PermanentError("no way")

    aws = start(refusing(Refusal=gives_up))
    assert failures(aws.deliver(note())) == []
    assert reasons(aws) == ["permanent"]


def test_an_answer_may_write_what_the_handler_had_written(start: Start) -> None:
    def same_item(event: Note, refusal: Refusal, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": "half done", "amount": 7})

    aws = start(refusing(Refusal=same_item))
    aws.deliver(note())
    assert amounts(aws) == {"half done": 7}


def test_an_answer_gets_the_event_and_the_refusal_itself(start: Start) -> None:
    got: list[Any] = []

    def noting(event: Note, refusal: Refusal, tx: Transaction) -> None:
        got.extend([event, refusal, tx.event.type])

    refusal = SoldOut("x")

    def raising(event: Note, tx: Transaction) -> None:
        raise refusal

    aws = start(refusing(raising, SoldOut=noting))
    aws.deliver(note("a", 3))
    assert got == [Note("a", 3), refusal, "noted"]
