"""Answers of a provider that are no outcome: still running, and a saved error."""

from typing import Any

import pytest

from once.errors import KeySpent, NotDone, PermanentError
from once.handlers.effect_declaration import Call, Policy
from once.testing import inject, never_sent
from tests.in_memory import Start
from tests.once.effects.provider import (
    Charge,
    Declined,
    Killed,
    Paid,
    Provider,
    Till,
    start_till,
)
from tests.once.support import amounts, note, reasons

WRITE = "TransactWriteItems"


class StillRunning(Exception):
    """The provider is at an earlier attempt under the key: Stripe's 409."""


def test_x2_still_running_is_tried_again_in_place(till: Till) -> None:
    till.provider.plan = [StillRunning(), StillRunning()]
    assert till.deliver(note())
    assert len(till.provider.calls) == 3
    assert len(set(till.provider.calls)) == len(till.provider.charges) == 1


def test_x2_still_running_is_tried_again_by_redelivery_and_is_no_failure(till: Till) -> None:
    event = note()
    till.provider.plan = [StillRunning()] * 6
    assert not till.deliver(event)
    assert not till.deliver(event, receive_count=2)
    assert till.standing == "unknown"
    assert till.deliver(event, receive_count=3)
    assert len(set(till.provider.calls)) == len(till.provider.charges) == 1
    assert till.aws.dead_letters() == []
    assert till.record["outcome"] == "accepted"


def finds(*found: Any) -> Any:
    """A look-up with these answers, one after the other; an error is raised."""
    answers = iter(found)

    def look_up(request: Charge, call: Call) -> Paid | None:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]

    return look_up


def test_x3_behind_a_saved_error_a_charge_is_found_and_nothing_is_called_again(
    start: Start, provider: Provider
) -> None:
    till = start_till(start, provider, look_up=finds(Paid("found")))
    provider.plan = [KeySpent()]
    assert till.deliver(note())
    assert len(provider.calls) == 1
    assert (amounts(till.aws), till.published) == ({"a": 1}, ["paid"])


def test_x3_the_look_up_is_asked_for_the_request_and_the_key_of_the_call(
    start: Start, provider: Provider
) -> None:
    asked: list[tuple[Any, str]] = []

    def look_up(request: Charge, call: Call) -> Paid:
        asked.append((request, call.key))
        return Paid("found")

    till = start_till(start, provider, look_up=look_up)
    provider.plan = [KeySpent()]
    assert till.deliver(note("a", 5))
    assert asked == [(Charge("a", 5), provider.calls[0][0])]


def test_x3_behind_a_saved_error_a_decline_is_found_and_refuses(
    start: Start, provider: Provider
) -> None:
    till = start_till(start, provider, look_up=finds(Declined("no money")))
    provider.plan = [KeySpent()]
    assert till.deliver(note())
    assert len(provider.calls) == 1
    assert (till.record["outcome"], till.published) == ("refused", ["declined"])


def test_x3_behind_a_saved_error_is_certainly_nothing_and_a_new_key_is_taken(
    start: Start, provider: Provider
) -> None:
    till = start_till(start, provider, look_up=finds(None, None))
    written: list[str] = []
    provider.plan = [KeySpent(), KeySpent(), lambda: written.append(till.record["provider_key"])]
    assert till.deliver(note())
    assert provider.keys == ["1", "2", "3"]
    assert written == [provider.calls[2][0]]  # the key was in the table before it was used
    assert len({request for _, request in provider.calls}) == 1
    assert len(provider.charges) == 1
    assert till.record["provider_key"] in provider.charges


@pytest.mark.parametrize(
    ("looked_up", "keys"),
    [
        pytest.param(Killed(), ["1", "1", "2"], id="before the new key is written down"),
        pytest.param(None, ["1", "2", "2"], id="after the new key is written down"),
    ],
)
def test_x3_killed_as_the_key_is_renewed_there_is_one_charge(
    start: Start, provider: Provider, looked_up: Any, keys: list[str]
) -> None:
    till, event = start_till(start, provider, look_up=finds(looked_up, None)), note()
    provider.plan = [KeySpent(), KeySpent() if looked_up else Killed()]
    assert till.killed(event)
    till.later()
    assert till.deliver(event)
    assert provider.keys == keys
    assert len(provider.charges) == 1


def test_x3_a_new_key_whose_writing_was_not_answered_is_not_used_before_it_is_there(
    start: Start, provider: Provider
) -> None:
    till = start_till(start, provider, look_up=finds(None, None))
    provider.plan = [KeySpent(), KeySpent()]
    with inject(till.aws.runtime.dynamodb, WRITE, None, never_sent()):
        assert till.deliver(note())
    assert provider.keys == ["1", "1", "2"]


def test_x3_a_new_key_has_a_life_of_its_own(start: Start, provider: Provider) -> None:
    till, lives = start_till(start, provider, look_up=finds(None)), []

    def spent() -> None:
        lives.append(till.record["key_expires_at"])
        till.later(20)
        raise KeySpent

    provider.plan = [spent, Killed()]
    assert till.killed(note())
    assert till.record["key_expires_at"] == lives[0] + 20


def test_x3_under_a_new_key_nothing_has_been_done_until_it_is_called(
    start: Start, provider: Provider
) -> None:
    till = start_till(start, provider, look_up=finds(None))
    provider.plan = [KeySpent(), NotDone(), NotDone()]
    assert not till.deliver(note())
    assert provider.keys == ["1", "2", "2"]
    assert till.standing == "not-done"


def test_x3_an_owner_that_was_overtaken_takes_no_new_key(start: Start, provider: Provider) -> None:
    event = note()

    def overtaken(request: Charge, call: Call) -> None:
        till.later()
        provider.plan = [Killed()]
        assert till.killed(event)

    till = start_till(start, provider, look_up=overtaken)
    provider.plan = [KeySpent()]
    assert not till.deliver(event)
    assert till.record["provider_key"].endswith("-1")
    assert till.standing == "in-flight"


@pytest.mark.parametrize("failure", [TimeoutError(), NotDone(), PermanentError()], ids=repr)
def test_x3_a_look_up_that_fails_says_nothing_and_is_tried_again(
    start: Start, provider: Provider, failure: Exception
) -> None:
    till, event = start_till(start, provider, look_up=finds(*[failure] * 3, Paid("x"))), note()
    provider.plan = [KeySpent()] * 4
    assert not till.deliver(event)
    assert till.standing == "unknown"
    assert till.deliver(event)
    assert provider.keys == ["1"] * 4
    assert provider.charges == {}
    assert amounts(till.aws) == {"a": 1}


@pytest.mark.parametrize("policy", Policy)
def test_x3_a_saved_error_that_nobody_can_look_up_is_for_a_person(
    start: Start, provider: Provider, policy: Policy
) -> None:
    till = start_till(start, provider, policy=policy, look_up=None)
    provider.plan = [KeySpent()]
    assert till.deliver(note())
    assert reasons(till.aws) == ["effect-unknown"]
    assert (till.standing, len(provider.calls)) == ("unknown", 1)
