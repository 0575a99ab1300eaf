"""What an effect comes to: a refusal, a permanent failure, and completions that fail."""

from typing import Any

import pytest

from once.errors import ConditionFailed, PermanentError
from once.handlers.transaction import Transaction
from once.testing import cancelled, inject
from tests.in_memory import Start
from tests.once.effects.provider import (
    Charge,
    Declined,
    Paid,
    Provider,
    Till,
    captured,
    start_till,
)
from tests.once.support import COUNTERS, Note, SoldOut, amounts, note, reasons

WRITE = "TransactWriteItems"


def test_a_refusal_of_the_provider_is_an_outcome_and_stays_one(till: Till) -> None:
    event = note()
    till.provider.plan = [Declined("no money")]
    assert till.deliver(event)
    assert till.deliver(event)
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"declined a": 0}
    assert (till.record["outcome"], till.record["refusal"]) == ("refused", "Declined")
    assert till.published == ["declined"]


def test_a_refusal_of_the_handler_comes_before_any_call(start: Start, provider: Provider) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        raise Declined("too poor")

    till = start_till(start, provider, handler=pay)
    assert till.deliver(note())
    assert provider.calls == []
    assert "effect" not in till.record
    assert till.published == ["declined"]


def test_a_condition_that_fails_beside_the_intent_refuses_before_any_call(
    start: Start, provider: Provider
) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        terms: Any = {"condition": "attribute_exists(amount)", "otherwise": Declined("unknown")}
        tx.check(COUNTERS, {"name": "customer"}, **terms)
        tx.perform(till.consumer.effects["charge"], Charge(event.name, 1))

    till = start_till(start, provider, handler=pay)
    assert till.deliver(note())
    assert provider.calls == []
    assert (till.standing, till.record["outcome"]) == ("done", "refused")


def test_a_condition_that_fails_in_the_completion_refuses_after_the_call(
    start: Start, provider: Provider
) -> None:
    def complete(event: Note, outcome: Paid, tx: Transaction) -> None:
        terms: Any = {"condition": "attribute_exists(amount)", "otherwise": Declined("too late")}
        tx.put(COUNTERS, {"name": event.name, "amount": 1}, **terms)

    till, event = start_till(start, provider, completion=complete), note()
    assert till.deliver(event)
    assert till.deliver(event)
    assert len(provider.calls) == 1
    assert (till.standing, till.record["outcome"]) == ("done", "refused")
    assert amounts(till.aws) == {"declined a": 0}
    assert till.record["provider_key"] in provider.charges


def test_a_refusal_that_the_completion_raises_is_answered(start: Start, provider: Provider) -> None:
    def complete(event: Note, outcome: Paid, tx: Transaction) -> None:
        raise Declined("too late")

    till = start_till(start, provider, completion=complete)
    assert till.deliver(note())
    assert (till.standing, till.published) == ("done", ["declined"])


def test_a_refusal_that_nobody_answers_is_quarantined_and_a_redrive_resumes(till: Till) -> None:
    event = note()
    till.provider.plan = [SoldOut()]
    assert till.deliver(event)
    assert reasons(till.aws) == ["unhandled-refusal"]
    assert till.deliver(event)
    assert len(set(till.provider.calls)) == len(till.provider.charges) == 1


def test_what_the_provider_never_takes_is_quarantined_and_a_redrive_resumes(till: Till) -> None:
    event = note()
    till.provider.plan = [PermanentError("no such card")]
    assert till.deliver(event)
    assert reasons(till.aws) == ["permanent"]
    assert till.standing == "not-done"
    assert till.deliver(event)
    assert len(set(till.provider.calls)) == len(till.provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}


def test_a_completion_on_a_stale_read_runs_again_and_calls_nothing_again(
    start: Start, provider: Provider
) -> None:
    seen: list[Any] = []

    def complete(event: Note, outcome: Paid, tx: Transaction) -> None:
        seen.append(tx.get(COUNTERS, {"name": "b"}))
        if len(seen) == 1:
            till.aws.put("counters", {"name": "b", "amount": 5, "once_commit": "another"})
        captured(event, outcome, tx)

    till = start_till(start, provider, completion=complete)
    assert till.deliver(note())
    assert [found and int(found["amount"]) for found in seen] == [None, 5]
    assert len(provider.calls) == 1
    assert amounts(till.aws) == {"a": 1, "b": 5}


def test_contention_in_the_completion_is_waited_for_and_calls_nothing_again(till: Till) -> None:
    conflict = cancelled("None", "TransactionConflict")
    with inject(till.aws.runtime.dynamodb, WRITE, None, conflict, conflict) as left:
        assert till.deliver(note())
    assert left == []
    assert len(till.aws.slept) == 2
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"a": 1}


@pytest.mark.parametrize(
    "failure", [ValueError("x"), ConditionFailed(), PermanentError()], ids=repr
)
def test_a_completion_that_fails_has_no_second_effect(
    start: Start, provider: Provider, failure: Exception
) -> None:
    failures = [failure]

    def complete(event: Note, outcome: Paid, tx: Transaction) -> None:
        if failures:
            raise failures.pop()
        captured(event, outcome, tx)

    till, event = start_till(start, provider, completion=complete), note()
    quarantined = isinstance(failure, PermanentError)
    assert till.deliver(event) is quarantined
    assert till.standing == "unknown"
    assert reasons(till.aws) == ["permanent"] * quarantined
    assert till.deliver(event)
    assert len(set(provider.calls)) == len(provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}
