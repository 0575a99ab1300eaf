"""Policies: whether an effect with an unknown outcome is called again, and for how long."""

import pytest

from once.effects.declaration import Policy
from once.errors import NotDone
from once.names import CLOCK_MARGIN_SECONDS
from tests.once.effects.provider import LIFETIME, NOW, TAKEOVER, Killed, Make, Step, Till, after
from tests.once.support import amounts, note, reasons

UNKNOWN = after(TimeoutError())
DAY = 24 * 60 * 60


@pytest.mark.parametrize(
    ("seconds", "called"),
    [
        (LIFETIME - CLOCK_MARGIN_SECONDS - 1, True),
        (LIFETIME - CLOCK_MARGIN_SECONDS, False),
        (30 * DAY, False),
    ],
)
@pytest.mark.parametrize("step", [UNKNOWN, Killed()], ids=["unanswered", "killed"])
def test_x4_a_provider_key_is_not_used_after_its_lifetime(
    till: Till, step: Step, seconds: int, *, called: bool
) -> None:
    event, till.provider.plan = note(), [step] * 3
    till.killed(event)
    pending, earlier, till.provider.plan = till.record, len(till.provider.calls), []
    till.later(seconds)
    text = (
        "EffectUnknown: the effect 'charge' may have happened, and the provider may have forgotten "
        f"the key {pending['provider_key']}: look it up there"
    )
    for _ in ("delivery", "redrive"):
        assert till.deliver(event)
        assert till.dead_letters() == [("effect-unknown", text)] * (not called)
    assert len(till.provider.calls) == earlier + called
    assert amounts(till.aws) == ({"a": 1} if called else {})
    assert (till.record == pending) is not called


def test_x4_the_lifetime_of_a_key_starts_with_its_first_unknown_call(make: Make) -> None:
    till, event = make(*[NotDone()] * 9), note()
    for _ in range(3):
        assert not till.deliver(event)
        till.later(DAY)
    till.leave_pending(event)
    assert till.record["key_expires_at"] == NOW + 3 * DAY + LIFETIME
    till.later()
    assert till.deliver(event)
    till.assert_paid_once(calls=11)


def test_x4_a_later_call_that_was_not_done_leaves_an_earlier_one_unknown(make: Make) -> None:
    till, event = make(UNKNOWN, *[NotDone()] * 5), note()
    assert not till.deliver(event)
    assert till.standing == "unknown"
    till.later(DAY / 2)
    assert not till.deliver(event)
    assert (till.standing, till.record["key_expires_at"]) == ("unknown", NOW + LIFETIME)
    till.later(DAY / 2)
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"]


def test_at_least_once_is_called_again_without_a_time_limit(make: Make) -> None:
    till, event = make(*[UNKNOWN] * 3, policy=Policy.AT_LEAST_ONCE), note()
    assert not till.deliver(event)
    assert "key_expires_at" not in till.record
    till.later(365 * DAY)
    assert till.deliver(event)
    till.assert_paid_once(calls=4)


@pytest.mark.parametrize("error", [TimeoutError, ValueError, KeyError])
def test_at_most_once_is_not_called_again_after_an_unknown_outcome(
    make: Make, error: type[Exception]
) -> None:
    till, event = make(after(error()), policy=Policy.AT_MOST_ONCE), note()
    assert till.deliver(event)
    text = (
        f"EffectUnknown: the effect 'charge' brought no outcome: {error.__name__}; it is done at "
        "most once: find out outside whether it was"
    )
    assert till.dead_letters() == [("effect-unknown", text)]
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"]
    assert len(till.provider.calls) == 1
    assert till.standing == "unknown"


@pytest.mark.parametrize("charged", [False, True])
def test_at_most_once_is_not_called_again_after_a_kill(make: Make, *, charged: bool) -> None:
    till = make(policy=Policy.AT_MOST_ONCE)
    event = till.leave_pending(charged=charged)
    till.later(TAKEOVER - 1)
    assert not till.deliver(event)
    till.later(1)
    assert till.deliver(event)
    text = (
        "EffectUnknown: the effect 'charge' may have happened, and is done at most once: find out "
        "outside whether it did"
    )
    assert till.dead_letters() == [("effect-unknown", text)]
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {}
