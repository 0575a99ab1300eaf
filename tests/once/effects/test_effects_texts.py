"""What the dead letter of an effect says: which effect it is of, and what a person is to do."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from once.errors import KeySpent, PermanentError
from once.handlers.effect_declaration import Call, Policy
from once.settings import TIME_MARGIN_MS
from once.testing import inject, refused
from tests.in_memory import Start
from tests.once.effects.provider import (
    LIFETIME,
    TAKEOVER,
    Charge,
    Killed,
    Provider,
    Till,
    after,
    start_till,
)
from tests.once.support import facts, note

LAST = 5
"""The receive at which a message that fails is dead-lettered."""


def error(till: Till) -> str:
    """The text, without the line of code that an unknown error came from."""
    [letter] = till.aws.dead_letters()
    return re.sub(r" at \w+:\d+", "", facts(letter)["error"])


def nothing(request: Charge, call: Call) -> None:
    """A look-up that finds that nothing was done."""


UNKNOWN = after(TimeoutError())
ENDS: dict[str, tuple[dict[str, Any], list[Any], str]] = {
    "a saved error that nobody can look up": (
        {},
        [KeySpent()],
        "EffectUnknown: the effect 'charge' ended in an error that says nothing of its outcome, "
        "and has no look-up: find out outside what became of it",
    ),
    "no answer to what is done at most once": (
        {"policy": Policy.AT_MOST_ONCE},
        [UNKNOWN],
        "EffectUnknown: the effect 'charge' brought no outcome: TimeoutError; it is done at most "
        "once: find out outside whether it was",
    ),
    "refused for good after an attempt without an answer": (
        {},
        [UNKNOWN, PermanentError("no such card")],
        "EffectUnknown: the effect 'charge' may have happened in an earlier attempt, and now the "
        "provider refuses it for good: look it up there: no such card",
    ),
    "no answer until the last": (
        {},
        [UNKNOWN] * 3,
        "Unanswered: the effect 'charge' brought no outcome: TimeoutError",
    ),
    "saved errors until the last": (
        {"look_up": nothing},
        [KeySpent()] * 3,
        "NotDone: the provider's attempt ended in an error, and did nothing",
    ),
}


@pytest.mark.parametrize(("options", "plan", "text"), ENDS.values(), ids=ENDS)
def test_an_effect_without_an_outcome_says_what_is_known_of_it(
    start: Start, options: dict[str, Any], plan: list[Any], text: str
) -> None:
    till = start_till(start, Provider(plan=[*plan]), **options)
    assert till.deliver(note(), receive_count=LAST)
    assert error(till) == text


def test_a_look_up_for_which_no_time_was_left_is_named(start: Start) -> None:
    def spent() -> None:
        till.context.remaining_ms = TIME_MARGIN_MS
        raise KeySpent

    till = start_till(start, Provider(plan=[spent]), look_up=nothing)
    assert till.deliver(note(), receive_count=LAST)
    assert error(till) == "Unanswered: no time was left to look the effect 'charge' up"


def test_a_call_that_would_not_fit_says_so(till: Till) -> None:
    assert till.deliver(note(), receive_count=LAST, remaining_ms=TIME_MARGIN_MS + 1)
    assert error(till) == (
        "OutOfTime: a call to the outside world would not fit into this invocation"
    )


@pytest.fixture
def dead(start: Start) -> Callable[[Policy], tuple[Till, Any]]:
    """Make a function that died at its call, and the event that it died at."""

    def die(policy: Policy) -> tuple[Till, Any]:
        till, event = start_till(start, Provider(plan=[Killed()]), policy=policy), note()
        assert till.killed(event)
        return till, event

    return die


def test_what_is_done_at_most_once_is_to_be_found_out_outside(dead: Any) -> None:
    till, event = dead(Policy.AT_MOST_ONCE)
    till.later(TAKEOVER)
    assert till.deliver(event)
    assert error(till) == (
        "EffectUnknown: the effect 'charge' may have happened, and is done at most once: find out "
        "outside whether it did"
    )


def test_a_key_that_may_be_forgotten_is_named(dead: Any) -> None:
    till, event = dead(Policy.PROVIDER_KEY)
    till.later(LIFETIME)
    assert till.deliver(event)
    assert error(till) == (
        "EffectUnknown: the effect 'charge' may have happened, and the provider may have forgotten "
        f"the key {till.record['provider_key']}: look it up there"
    )


def test_a_record_that_cannot_be_changed_names_what_dynamodb_said(dead: Any) -> None:
    till, event = dead(Policy.PROVIDER_KEY)
    till.later()
    denied = refused("AccessDeniedException")
    with inject(till.aws.runtime.dynamodb, "TransactWriteItems", None, denied):
        assert till.deliver(event, receive_count=LAST)
    assert error(till) == (
        "Unanswered: the pending record could not be changed: ClientError AccessDeniedException"
    )
