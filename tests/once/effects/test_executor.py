"""Performing within the time that an invocation has: no call begins that may not end in it."""

from dataclasses import replace
from typing import Any

import pytest

from once.errors import KeySpent, NotDone
from once.handlers.effect_declaration import Call, Policy
from once.settings import TIME_MARGIN_MS
from once.testing import cancelled, inject
from tests.in_memory import Start
from tests.once.effects.provider import (
    TIMEOUT,
    Charge,
    Killed,
    Paid,
    Provider,
    Till,
    after,
    consumer_of,
    start_till,
)
from tests.once.support import amounts, calls, facts, note, reasons

JUST_ENOUGH = TIME_MARGIN_MS + TIMEOUT * 1000
WRITE = "TransactWriteItems"


def passing(till: Till, milliseconds: int) -> Any:
    """Let so much of the invocation's time go by."""

    def pass_by(*_: Any, **__: Any) -> None:
        till.context.remaining_ms -= milliseconds

    return pass_by


def test_where_the_whole_timeout_fits_there_is_a_call(till: Till) -> None:
    assert till.deliver(note(), remaining_ms=JUST_ENOUGH)
    assert till.provider.timeouts == [TIMEOUT]


def test_where_the_timeout_does_not_fit_there_is_no_call_and_no_record(till: Till) -> None:
    with calls(till.aws.runtime.sqs) as made:
        assert not till.deliver(note(), remaining_ms=JUST_ENOUGH - 1)
    assert till.provider.calls == []
    assert till.aws.items("dedup") == []
    assert [parameters["VisibilityTimeout"] for _, parameters in made] == [0]


def test_where_the_timeout_does_not_fit_nothing_is_taken_over(till: Till) -> None:
    event = note()
    till.provider.plan = [Killed()]
    till.killed(event)
    pending = till.record
    till.later()
    assert not till.deliver(event, remaining_ms=JUST_ENOUGH - 1)
    assert till.record == pending


def test_time_that_finding_the_intent_took_is_not_there_for_a_takeover(till: Till) -> None:
    event = note()
    till.provider.plan = [Killed()]
    till.killed(event)
    pending = till.record
    till.later()
    till.aws.runtime = replace(till.aws.runtime, sleep=passing(till, 1))
    with inject(till.aws.runtime.dynamodb, WRITE, cancelled("TransactionConflict")):
        assert not till.deliver(event, remaining_ms=JUST_ENOUGH)
    assert till.record == pending


def test_time_that_the_intent_took_is_not_there_for_the_call(till: Till) -> None:
    event, conflict = note(), cancelled("TransactionConflict")
    till.aws.runtime = replace(till.aws.runtime, sleep=passing(till, 1))
    with inject(till.aws.runtime.dynamodb, WRITE, conflict):
        assert not till.deliver(event, remaining_ms=JUST_ENOUGH)
    assert till.provider.calls == []
    assert till.standing == "not-done"  # so at any later time it may still be called
    till.later(365 * 24 * 60 * 60)
    assert till.deliver(event)
    assert len(till.provider.calls) == 1


def test_at_most_once_is_not_used_up_by_time_that_the_intent_took(
    start: Start, provider: Provider
) -> None:
    till, event = start_till(start, provider, policy=Policy.AT_MOST_ONCE), note()
    till.aws.runtime = replace(till.aws.runtime, sleep=passing(till, 24_999))
    with inject(till.aws.runtime.dynamodb, WRITE, cancelled("TransactionConflict")):
        assert not till.deliver(event)
    assert till.deliver(event)
    assert len(provider.calls) == 1
    assert reasons(till.aws) == []


@pytest.mark.parametrize("error", [NotDone(), TimeoutError()], ids=repr)
def test_no_second_call_begins_that_does_not_fit(till: Till, error: Exception) -> None:
    def fail() -> None:
        till.context.remaining_ms = JUST_ENOUGH - 1
        raise error

    till.provider.plan = [fail]
    assert not till.deliver(note(), remaining_ms=60_000)
    assert len(till.provider.calls) == 1


def test_a_second_call_that_fits_is_made_at_once(till: Till) -> None:
    till.provider.plan = [after(TimeoutError())]
    assert till.deliver(note(), remaining_ms=JUST_ENOUGH)
    assert till.provider.timeouts == [TIMEOUT, TIMEOUT]


def test_a_look_up_has_what_is_left_and_no_more(start: Start, provider: Provider) -> None:
    given: list[float] = []

    def look_up(request: Charge, call: Call) -> Paid:
        given.append(call.timeout_seconds)
        return Paid("found")

    till = start_till(start, provider, look_up=look_up)

    def spent() -> None:
        till.context.remaining_ms -= 1500
        raise KeySpent

    provider.plan = [spent]
    assert till.deliver(note(), remaining_ms=JUST_ENOUGH)
    assert given == [0.5]


def test_a_look_up_for_which_there_is_no_time_is_left_to_the_next_delivery(
    start: Start, provider: Provider
) -> None:
    looked_up: list[float] = []

    def look_up(request: Charge, call: Call) -> Paid:
        looked_up.append(call.timeout_seconds)
        return Paid("found")

    till, event = start_till(start, provider, look_up=look_up), note()

    def spent() -> None:
        till.context.remaining_ms = TIME_MARGIN_MS
        raise KeySpent

    provider.plan = [spent, KeySpent()]
    assert not till.deliver(event)
    assert looked_up == []
    assert till.standing == "unknown"
    assert till.deliver(event)
    assert looked_up == [TIMEOUT]
    assert amounts(till.aws) == {"a": 1}


def test_a_pending_effect_that_the_code_no_longer_has_is_for_a_person(
    till: Till, provider: Provider
) -> None:
    event = note()
    provider.plan = [Killed()]
    till.killed(event)
    other = Till(till.aws, consumer_of(provider, name="payment"), provider)
    till.later()
    assert other.deliver(event)
    [letter] = till.aws.dead_letters()
    assert facts(letter)["reason"] == "effect-unknown"
    assert facts(letter)["error"] == (
        "EffectUnknown: the pending effect 'charge' is none of this consumer's any more: bring it "
        "back, or find out outside what became of it"
    )
    assert till.deliver(event)  # with the old code back
    assert amounts(till.aws) == {"a": 1}
