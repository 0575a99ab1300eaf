"""Policies: what becomes of an effect whose outcome is not known, and for how long."""

from collections.abc import Callable
from typing import Any

import pytest

from once.errors import NotDone
from once.handlers.effect_declaration import Policy
from once.schema import CLOCK_MARGIN_SECONDS
from tests.in_memory import Start
from tests.once.effects.provider import (
    LIFETIME,
    NOW,
    TAKEOVER,
    Killed,
    Provider,
    Till,
    after,
    start_till,
)
from tests.once.support import amounts, facts, note, reasons

Make = Callable[[Policy], Till]
UNKNOWN = after(TimeoutError())
DAY = 24 * 60 * 60


@pytest.fixture
def make(start: Start) -> Make:
    return lambda policy: start_till(start, Provider(), policy=policy)


@pytest.mark.parametrize(
    ("seconds", "called"),
    [
        (LIFETIME - CLOCK_MARGIN_SECONDS - 1, True),
        (LIFETIME - CLOCK_MARGIN_SECONDS, False),
        (30 * DAY, False),
    ],
)
@pytest.mark.parametrize("death", [UNKNOWN, Killed()], ids=["unanswered", "killed"])
def test_x4_a_key_that_may_be_forgotten_is_never_used_again(
    till: Till, death: Any, seconds: int, *, called: bool
) -> None:
    event = note()
    till.provider.plan = [death] * 3
    till.killed(event)
    till.provider.plan, tried = [], len(till.provider.calls)
    till.later(seconds)
    assert till.deliver(event)
    assert len(till.provider.calls) == tried + called
    assert reasons(till.aws) == ["effect-unknown"] * (not called)
    assert amounts(till.aws) == ({"a": 1} if called else {})


def test_x4_the_dead_letter_names_the_key_and_says_what_to_do(till: Till) -> None:
    event = note()
    till.provider.plan = [Killed()]
    till.killed(event)
    till.later(LIFETIME)
    till.deliver(event)
    [letter] = till.aws.dead_letters()
    assert till.record["provider_key"] in facts(letter)["error"]
    assert facts(letter)["error"].endswith("look it up there")
    assert till.standing == "in-flight"  # for the person, nothing was changed


def test_x4_a_redrive_of_what_may_be_forgotten_is_quarantined_again(till: Till) -> None:
    event = note()
    till.provider.plan = [Killed()]
    till.killed(event)
    till.later(LIFETIME)
    assert till.deliver(event)
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"] * 2
    assert len(till.provider.calls) == 1


def test_x4_three_days_without_the_provider_do_not_use_up_the_life_of_a_key(till: Till) -> None:
    event = note()
    till.provider.plan = [NotDone()] * 9
    for _ in range(3):
        assert not till.deliver(event)
        till.later(DAY)
    assert till.deliver(event)
    assert till.provider.keys == ["1"] * 10
    assert len(till.provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}


def test_x4_the_life_of_a_key_begins_with_the_first_attempt_that_may_have_arrived(
    till: Till,
) -> None:
    event = note()
    till.provider.plan = [NotDone()] * 3
    till.deliver(event)
    till.later(DAY)
    till.provider.plan = [Killed()]
    till.killed(event)
    assert till.record["key_expires_at"] == NOW + DAY + LIFETIME


@pytest.mark.parametrize("last", [NotDone(), NotDone("again")])
def test_x4_what_may_have_arrived_before_a_certain_failure_counts_all_the_same(
    till: Till, last: Exception
) -> None:
    event = note()
    till.provider.plan = [UNKNOWN, last, last]
    assert not till.deliver(event)
    assert till.standing == "unknown"
    till.provider.plan = [last] * 3
    till.later(DAY / 2)
    assert not till.deliver(event)
    assert (till.standing, till.record["key_expires_at"]) == ("unknown", NOW + LIFETIME)
    till.later(DAY / 2)
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"]


def test_at_least_once_is_called_again_without_end(make: Make) -> None:
    till, event = make(Policy.AT_LEAST_ONCE), note()
    till.provider.plan = [UNKNOWN] * 3
    assert not till.deliver(event)
    assert "key_expires_at" not in till.record
    till.later(365 * DAY)
    assert till.deliver(event)
    assert len(till.provider.calls) == 4
    assert amounts(till.aws) == {"a": 1}


@pytest.mark.parametrize("error", [TimeoutError(), ValueError(), KeyError()], ids=repr)
def test_at_most_once_is_not_called_again_when_nobody_knows(make: Make, error: Exception) -> None:
    till, event = make(Policy.AT_MOST_ONCE), note()
    till.provider.plan = [after(error)]
    assert till.deliver(event)
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"] * 2
    assert len(till.provider.calls) == 1
    assert till.standing == "unknown"


def test_at_most_once_is_not_called_again_after_a_death(make: Make) -> None:
    till, event = make(Policy.AT_MOST_ONCE), note()
    till.provider.plan = [Killed()]
    assert till.killed(event)
    till.later(TAKEOVER - 1)
    assert not till.deliver(event)
    till.later(1)
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"]
    assert len(till.provider.calls) == 1


def test_at_most_once_is_called_again_where_it_was_certainly_not_done(make: Make) -> None:
    till, event = make(Policy.AT_MOST_ONCE), note()
    till.provider.plan = [NotDone()] * 5
    assert not till.deliver(event)
    assert till.deliver(event)
    assert len(till.provider.calls) == 6
    assert len(till.provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}


def test_at_most_once_may_be_done_while_its_outcome_was_not_written_down(make: Make) -> None:
    """What the policy costs: the e-mail is out, and nobody but a person can find out."""
    till, event = make(Policy.AT_MOST_ONCE), note()
    till.provider.plan = [after(Killed())]
    assert till.killed(event)
    till.later(TAKEOVER)
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"]
    assert amounts(till.aws) == {}
