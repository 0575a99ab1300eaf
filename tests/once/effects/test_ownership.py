"""Ownership of an effect: its lease, takeovers, and functions whose clocks differ.

Each clock is at most five minutes from true time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest

from once.effects.declaration import Policy
from once.errors import NotDone
from once.names import CLOCK_MARGIN_SECONDS, CLOCK_SKEW_SECONDS, Limits
from tests.once.effects.provider import (
    LAST_RECEIVE,
    LEASE,
    LIFETIME,
    NOW,
    Killed,
    Make,
    Step,
    Till,
    after,
)
from tests.once.support import Log, amounts, note, reasons

UNKNOWN = after(TimeoutError())
LONGEST_TIMEOUT_SECONDS = 900


@contextmanager
def ahead(till: Till, seconds: float) -> Iterator[None]:
    """Run a function whose clock is ahead of the others'."""
    till.later(seconds)
    try:
        yield
    finally:
        till.later(-seconds)


def deliver_twice(till: Till, event: Any, seconds: float) -> tuple[bool, bool]:
    """Deliver an event again during its first call, to a function whose clock is ahead.

    Returns whether each delivery was acknowledged.
    """
    second: list[bool] = []

    def meanwhile() -> None:
        with ahead(till, seconds):
            second.append(till.deliver(event))

    till.provider.plan = [meanwhile]
    first = till.deliver(event)
    return first, second[0]


MARGIN_POLICIES = [Policy.AT_MOST_ONCE, Policy.AT_LEAST_ONCE]


@pytest.mark.parametrize(
    ("policy", "seconds", "taken_over"),
    [
        (Policy.PROVIDER_KEY, 0, False),
        # A margin would only cause a delay: the provider answers both calls alike.
        (Policy.PROVIDER_KEY, 60, True),
        *product(MARGIN_POLICIES, [LEASE, 60, CLOCK_MARGIN_SECONDS], [False]),
    ],
)
def test_x1_an_effect_is_not_taken_over_while_a_second_call_could_do_harm(
    make: Make, policy: Policy, seconds: int, *, taken_over: bool
) -> None:
    till = make(policy=policy)
    assert deliver_twice(till, note(), seconds) == (True, taken_over)
    till.assert_paid_once(calls=1 + taken_over)


def test_a_key_near_its_expiry_is_not_unknown_while_its_owner_is_calling(till: Till) -> None:
    event = till.leave_pending()
    till.later(LIFETIME - CLOCK_MARGIN_SECONDS - 1)  # its last takeover
    assert deliver_twice(till, event, 60) == (True, False)
    till.assert_paid_once(calls=2)


def test_x4_a_key_that_a_fast_clock_wrote_is_not_used_too_long_by_a_slow_one(till: Till) -> None:
    with ahead(till, CLOCK_SKEW_SECONDS):
        event = till.leave_pending()
    till.later(LIFETIME)
    with ahead(till, -CLOCK_SKEW_SECONDS):
        assert till.deliver(event)
    assert len(till.provider.calls) == 1
    assert reasons(till.aws) == ["effect-unknown"]


@pytest.mark.parametrize("skew", [-CLOCK_MARGIN_SECONDS, 0, CLOCK_MARGIN_SECONDS])
def test_the_delay_until_a_takeover_is_within_the_limit_of_sqs(make: Make, skew: int) -> None:
    till, event = make(Killed(), policy=Policy.AT_MOST_ONCE), note()
    with pytest.raises(Killed):
        till.deliver(event, remaining_ms=LONGEST_TIMEOUT_SECONDS * 1000)
    with ahead(till, skew), till.delays() as delays:
        assert not till.deliver(event)
    assert delays == [LONGEST_TIMEOUT_SECONDS + CLOCK_MARGIN_SECONDS - skew]
    assert delays[0] + LONGEST_TIMEOUT_SECONDS < Limits.VISIBILITY_SECONDS


def test_functions_that_share_one_clock_need_no_margin(make: Make) -> None:
    till = make(policy=Policy.AT_LEAST_ONCE, margin=0)
    event = till.leave_pending()
    till.later(LEASE)
    assert till.deliver(event)


def test_x1_a_delivery_in_flight_is_delayed_until_the_lease_ends(till: Till) -> None:
    event = till.leave_pending(charged=True)
    with till.delays() as delays:
        till.later(10.5)
        assert not till.deliver(event)
        till.later(LEASE - 11.5)
        assert not till.deliver(event, receive_count=LAST_RECEIVE - 1)
    assert delays == [LEASE - 10, 1]
    assert till.aws.dead_letters() == []
    assert len(till.provider.calls) == 1
    till.later(1)
    assert till.deliver(event)


def test_a_message_in_flight_at_its_last_receive_is_quarantined(till: Till) -> None:
    # SQS would dead-letter it next, without a reason. The owner finishes the effect anyway.
    event, last = note(), []
    till.provider.plan = [lambda: last.append(till.deliver(event, receive_count=LAST_RECEIVE))]
    assert till.deliver(event)
    assert last == [True]
    assert reasons(till.aws) == ["not-tried"]
    assert till.deliver(event)
    till.assert_paid_once(calls=1)


@pytest.mark.parametrize(
    ("plan", "calls"),
    [pytest.param([], 2, id="succeeds"), pytest.param([UNKNOWN] * 3, 5, id="hands back")],
)
def test_x1_an_overtaken_owner_completes_only_if_its_successor_gave_up(
    till: Till, plan: list[Step], calls: int
) -> None:
    def overtake() -> None:
        till.later()
        till.provider.plan = [*plan]
        till.deliver(event)
        till.provider.plan = []

    event, till.provider.plan = note(), [overtake]
    assert till.deliver(event)
    till.assert_paid_once(calls=calls)


def test_x1_an_overtaken_owner_leaves_the_effect_to_its_successor(till: Till) -> None:
    event, log = note(), Log(till.aws)

    def overtake() -> None:
        till.later()
        till.leave_pending(event)

    till.provider.plan = [overtake]
    with till.delays() as delays:
        assert not till.deliver(event)
    assert delays == [LEASE]
    assert amounts(till.aws) == {}
    assert till.standing == "in-flight"
    assert "not handed back" not in log.text()  # it does not try to
    till.later()
    assert till.deliver(event)
    till.assert_paid_once(calls=3)


def test_each_takeover_has_its_own_owner_and_lease(till: Till) -> None:
    event, seen = till.leave_pending(), list[dict[str, Any]]()
    first = till.record
    till.later()
    till.provider.plan = [lambda: seen.append(till.record)]
    assert till.deliver(event, remaining_ms=9_000)
    [second] = seen
    assert second["owner"] != first["owner"]
    assert first["lease_until"] == (NOW + LEASE) * 1000
    assert second["lease_until"] == (NOW + LEASE + 9) * 1000
    same = ("provider_key", "request", "key_expires_at", "effect", "fingerprint", "commit")
    assert {name: second[name] for name in same} == {name: first[name] for name in same}


@pytest.mark.parametrize("policy", [Policy.AT_LEAST_ONCE, Policy.PROVIDER_KEY])
def test_two_deliveries_in_one_batch_make_one_call(make: Make, policy: Policy) -> None:
    till, event = make(policy=policy), note()
    assert till.aws.deliver(event, event) == {"batchItemFailures": []}
    till.assert_paid_once(calls=1)


def test_a_failing_effect_leaves_the_rest_of_its_batch_unaffected(make: Make) -> None:
    till = make(*[NotDone()] * 3)
    answer = till.aws.deliver(note("a"), note("b"), fails=True)
    assert len(answer["batchItemFailures"]) == 1
    assert amounts(till.aws) == {"b": 1}
