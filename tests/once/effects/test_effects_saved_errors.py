"""Provider answers that are not an outcome: still running, and a saved error."""

from typing import Any

import pytest

from once.effects.declaration import Call, Policy
from once.errors import KeySpent, NotDone, PermanentError
from once.testing import never_sent
from tests.once.effects.provider import LAST_RECEIVE, Charge, Declined, Killed, Make, Paid, Step
from tests.once.support import note


class StillRunning(Exception):
    """An earlier call with this key has not ended: Stripe's 409."""


def finds(*found: Any) -> Any:
    """A look-up with these answers, one after the other; an error is raised."""
    answers = iter(found)

    def look_up(request: Charge, call: Call) -> Paid | None:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]

    return look_up


def test_x2_still_running_is_retried_by_redelivery_and_not_quarantined(make: Make) -> None:
    till, event = make(*[StillRunning()] * 6), note()
    assert not till.deliver(event)
    assert not till.deliver(event, receive_count=2)
    assert till.standing == "unknown"
    assert till.deliver(event, receive_count=3)
    till.assert_paid_once(calls=7)
    assert till.record["outcome"] == "accepted"


def test_x3_a_charge_found_behind_a_saved_error_completes_without_another_call(make: Make) -> None:
    asked: list[tuple[Any, str]] = []

    def look_up(request: Charge, call: Call) -> Paid:
        asked.append((request, call.key))
        return Paid("found")

    till = make(KeySpent(), look_up=look_up)
    assert till.deliver(note("a", 5))
    assert asked == [(Charge("a", 5), till.provider.calls[0][0])]
    assert len(till.provider.calls) == 1
    till.assert_completed(amount=5)


def test_x3_a_decline_found_behind_a_saved_error_refuses(make: Make) -> None:
    till = make(KeySpent(), look_up=finds(Declined("no money")))
    assert till.deliver(note())
    assert len(till.provider.calls) == 1
    assert (till.record["outcome"], till.published) == ("refused", ["declined"])


def test_x3_a_saved_error_with_nothing_done_is_followed_by_a_new_key(make: Make) -> None:
    till, written = make(look_up=finds(None, None)), list[str]()
    plan: list[Step] = [KeySpent(), KeySpent()]
    till.provider.plan = [*plan, lambda: written.append(till.record["provider_key"])]
    assert till.deliver(note())
    assert till.provider.keys == ["1", "2", "3"]
    assert written == [till.provider.calls[2][0]]  # the key is in the table before its call
    assert len({request for _, request in till.provider.calls}) == 1
    assert len(till.provider.charges) == 1
    assert till.record["provider_key"] in till.provider.charges


@pytest.mark.parametrize(
    ("looked_up", "keys"),
    [
        pytest.param(Killed(), ["1", "1", "2"], id="before the new key is written"),
        pytest.param(None, ["1", "2", "2"], id="after the new key is written"),
    ],
)
def test_x3_a_kill_around_the_renewal_of_a_key_leaves_one_charge(
    make: Make, looked_up: Any, keys: list[str]
) -> None:
    till, event = make(look_up=finds(looked_up, None)), note()
    till.provider.plan = [KeySpent(), KeySpent() if looked_up else Killed()]
    assert till.killed(event)
    till.later()
    assert till.deliver(event)
    assert till.provider.keys == keys
    assert len(till.provider.charges) == 1


def test_x3_a_new_key_is_not_used_before_its_write_is_answered(make: Make) -> None:
    till = make(KeySpent(), KeySpent(), look_up=finds(None, None))
    with till.faults(None, never_sent()):
        assert till.deliver(note())
    assert till.provider.keys == ["1", "1", "2"]


def test_x3_an_effect_is_not_done_until_its_new_key_is_called(make: Make) -> None:
    till = make(KeySpent(), NotDone(), NotDone(), look_up=finds(None))
    assert not till.deliver(note())
    assert till.provider.keys == ["1", "2", "2"]
    assert till.standing == "not-done"


@pytest.mark.parametrize("failure", [TimeoutError(), NotDone(), PermanentError()], ids=repr)
def test_x3_a_look_up_that_fails_is_tried_again(make: Make, failure: Exception) -> None:
    till, event = make(*[KeySpent()] * 4, look_up=finds(*[failure] * 3, Paid("x"))), note()
    assert not till.deliver(event)
    assert till.standing == "unknown"
    assert till.deliver(event)
    assert till.provider.keys == ["1"] * 4
    assert till.provider.charges == {}
    till.assert_completed()


@pytest.mark.parametrize("policy", Policy)
def test_x3_a_saved_error_without_a_look_up_is_quarantined(make: Make, policy: Policy) -> None:
    till = make(KeySpent(), policy=policy)
    assert till.deliver(note())
    text = (
        "EffectUnknown: the effect 'charge' ended in an error that says nothing of its outcome, "
        "and has no look-up: find out outside what became of it"
    )
    assert till.dead_letters() == [("effect-unknown", text)]
    assert (till.standing, len(till.provider.calls)) == ("unknown", 1)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (KeySpent(), "NotDone: the provider's attempt ended in an error, and did nothing"),
        (StillRunning(), "Unanswered: the effect 'charge' brought no outcome: StillRunning"),
    ],
)
def test_an_effect_without_an_outcome_at_the_last_receive_is_quarantined(
    make: Make, step: Exception, text: str
) -> None:
    till = make(*[step] * 3, look_up=finds(None, None, None))
    assert till.deliver(note(), receive_count=LAST_RECEIVE)
    assert [error for _, error in till.dead_letters()] == [text]
