"""A function that is killed at any step of an effect: it is charged once, and completed once."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from tests.once.effects.provider import (
    LEASE,
    Killed,
    Till,
    after,
    kill,
)
from tests.once.support import amounts, note

WRITE = "TransactWriteItems"


def at_dynamodb(till: Till, nth: int, *, done: bool) -> AbstractContextManager[None]:
    return kill(till.aws.runtime.dynamodb, nth, done=done)


def at_provider(till: Till, *, done: bool) -> AbstractContextManager[None]:
    till.provider.plan = [after(Killed()) if done else Killed()]
    return nullcontext()


DEATHS: dict[str, Any] = {
    "before the first write": lambda till: at_dynamodb(till, 1, done=False),
    "after the first write": lambda till: at_dynamodb(till, 1, done=True),
    "before the charge": lambda till: at_provider(till, done=False),
    "after the charge": lambda till: at_provider(till, done=True),
    "before the second write": lambda till: at_dynamodb(till, 2, done=False),
    "after the second write": lambda till: at_dynamodb(till, 2, done=True),
}


@pytest.mark.parametrize("first", DEATHS)
@pytest.mark.parametrize("second", DEATHS)
def test_x1_a_function_that_is_killed_anywhere_twice_charges_once_and_completes_once(
    till: Till, first: str, second: str
) -> None:
    event = note("a", 7)
    for death in (first, second):
        with DEATHS[death](till):
            till.killed(event)
        till.provider.plan = []
        till.later()
    assert till.deliver(event)
    assert len(till.provider.charges) == 1
    assert len(set(till.provider.calls)) == 1
    assert amounts(till.aws) == {"a": 7}
    assert (till.standing, till.published) == ("done", ["paid"])


def test_x1_before_the_lease_is_over_the_effect_of_a_dead_function_is_left_alone(
    till: Till,
) -> None:
    event = note()
    till.provider.plan = [after(Killed())]
    assert till.killed(event)
    till.later(LEASE - 1)
    assert not till.deliver(event)
    assert len(till.provider.calls) == 1
    till.later(1)
    assert till.deliver(event)
