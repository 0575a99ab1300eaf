"""Time within an invocation: no call starts unless its whole timeout fits."""

from dataclasses import replace
from typing import Any

import pytest

from once.effects.declaration import Call, Policy
from once.errors import KeySpent, NotDone
from once.settings import TIME_MARGIN_MS
from once.testing import Fault, cancelled
from tests.once.effects.provider import LAST_RECEIVE, TIMEOUT, Charge, Make, Paid, Till, after
from tests.once.support import note

JUST_ENOUGH = TIME_MARGIN_MS + TIMEOUT * 1000
CONFLICT = cancelled("TransactionConflict")


def spend_pauses(till: Till) -> None:
    """Let each pause before a retry take a millisecond of the invocation."""

    def sleep(seconds: float) -> None:
        till.context.remaining_ms -= 1

    till.aws.runtime = replace(till.aws.runtime, sleep=sleep)


def test_a_call_that_does_not_fit_is_not_begun(till: Till) -> None:
    event = note()
    with till.delays() as delays:
        assert not till.deliver(event, remaining_ms=JUST_ENOUGH - 1)
    assert delays == [0]
    assert till.deliver(event, receive_count=LAST_RECEIVE, remaining_ms=JUST_ENOUGH - 1)
    text = "OutOfTime: a call to the outside world would not fit into this invocation"
    assert [error for _, error in till.dead_letters()] == [text]
    assert till.provider.calls == []
    assert till.aws.items("dedup") == []


@pytest.mark.parametrize(
    ("remaining_ms", "faults"),
    [
        pytest.param(JUST_ENOUGH - 1, [], id="from the start"),
        pytest.param(JUST_ENOUGH, [CONFLICT], id="after contention at the intent"),
    ],
)
def test_an_effect_is_not_taken_over_if_its_call_does_not_fit(
    till: Till, remaining_ms: int, faults: list[Fault]
) -> None:
    event = till.leave_pending()
    pending = till.record
    till.later()
    spend_pauses(till)
    with till.faults(*faults):
        assert not till.deliver(event, remaining_ms=remaining_ms)
    assert till.record == pending


@pytest.mark.parametrize("policy", Policy)
def test_contention_at_the_intent_leaves_the_effect_not_done(make: Make, policy: Policy) -> None:
    till, event = make(policy=policy), note()
    spend_pauses(till)
    with till.faults(CONFLICT):
        assert not till.deliver(event, remaining_ms=JUST_ENOUGH)
    assert till.provider.calls == []
    assert till.standing == "not-done"
    till.later(365 * 24 * 60 * 60)
    assert till.deliver(event)
    till.assert_paid_once(calls=1)


@pytest.mark.parametrize("error", [NotDone(), TimeoutError()], ids=repr)
def test_a_second_call_that_does_not_fit_is_not_made(till: Till, error: Exception) -> None:
    def fail() -> None:
        till.context.remaining_ms = JUST_ENOUGH - 1
        raise error

    till.provider.plan = [fail]
    assert not till.deliver(note(), remaining_ms=60_000)
    assert len(till.provider.calls) == 1


def test_a_second_call_that_fits_is_made_at_once(make: Make) -> None:
    till = make(after(TimeoutError()))
    assert till.deliver(note(), remaining_ms=JUST_ENOUGH)
    assert till.provider.timeouts == [TIMEOUT, TIMEOUT]


def looking_up(make: Make, *, spent_ms: int) -> tuple[Till, list[float]]:
    """Start a consumer whose first call takes so long; return the timeouts of its look-ups too."""
    timeouts: list[float] = []

    def look_up(request: Charge, call: Call) -> Paid:
        timeouts.append(call.timeout_seconds)
        return Paid("found")

    def spend() -> Any:
        till.context.remaining_ms -= spent_ms
        raise KeySpent

    till = make(spend, KeySpent(), look_up=look_up)
    return till, timeouts


def test_a_look_up_gets_the_time_that_is_left(make: Make) -> None:
    till, timeouts = looking_up(make, spent_ms=1500)
    assert till.deliver(note(), remaining_ms=JUST_ENOUGH)
    assert timeouts == [0.5]


@pytest.mark.parametrize("receive_count", [1, LAST_RECEIVE])
def test_a_look_up_without_time_is_left_to_the_next_delivery(
    make: Make, receive_count: int
) -> None:
    till, timeouts = looking_up(make, spent_ms=TIMEOUT * 1000)
    event, last = note(), receive_count == LAST_RECEIVE
    assert till.deliver(event, receive_count=receive_count, remaining_ms=JUST_ENOUGH) is last
    text = "Unanswered: no time was left to look the effect 'charge' up"
    assert [error for _, error in till.dead_letters()] == [text] * last
    assert timeouts == []
    assert till.standing == "unknown"
    assert till.deliver(event)
    assert timeouts == [TIMEOUT]
    till.assert_completed()
