"""Effects whose message cannot go on: what is known of the effect is reported, and kept."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from once.effects.declaration import Call, Policy
from once.errors import NotDone
from once.names import Limits
from once.testing import refused
from once.transaction import Transaction
from tests.once.effects.provider import (
    LAST_RECEIVE,
    TAKEOVER,
    Charge,
    Make,
    Paid,
    Till,
    consumer_of,
)
from tests.once.support import COUNTERS, Note, note


class Narrow(Struct):
    name: str
    amount: Annotated[int, Meta(ge=100)]


def charge(request: Charge, call: Call) -> Paid:
    raise NotImplementedError


def with_one_argument() -> Any:
    """Return a function that cannot be called as its declaration says."""
    return wraps(charge)(lambda request: Paid(request.name))


def failing_inside(request: Charge, call: Call) -> Paid:
    raise ImportError(name="bank")  # the library cannot see whether a call was made before


@pytest.mark.parametrize("policy", Policy)
def test_an_effect_that_could_not_be_started_was_not_done(make: Make, policy: Policy) -> None:
    till, event = make(policy=policy), note()
    till.effect.function = with_one_argument()
    assert not till.deliver(event)
    assert till.standing == "not-done"
    till.effect.function = till.provider.charge
    till.later(365 * 24 * 60 * 60)
    assert till.deliver(event)
    till.assert_paid_once(calls=1)


def test_an_effect_that_could_not_be_started_is_named_in_the_letter(make: Make) -> None:
    till = make(policy=Policy.AT_MOST_ONCE)
    till.effect.function = with_one_argument()
    assert till.deliver(note(), receive_count=LAST_RECEIVE)
    [(reason, error)] = till.dead_letters()
    assert reason == "retries-exhausted"
    assert error.startswith("NotDone: 'charge' could not be started: TypeError")


@pytest.mark.parametrize(
    "function",
    [failing_inside, wraps(charge)(partial(int, "x"))],
    ids=["its own error", "no Python function"],
)
def test_an_effect_that_may_have_called_is_unknown(
    make: Make, function: Callable[..., Any]
) -> None:
    till = make(policy=Policy.AT_MOST_ONCE)
    till.effect.function = function
    assert till.deliver(note())
    assert [reason for reason, _ in till.dead_letters()] == ["effect-unknown"]
    assert till.standing == "unknown"


def test_an_effect_that_could_not_be_resumed_stays_unknown(make: Make) -> None:
    till = make(policy=Policy.AT_LEAST_ONCE)
    event = till.leave_pending()
    till.later(TAKEOVER)
    till.effect.function = with_one_argument()
    assert not till.deliver(event)
    assert till.standing == "unknown"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"model": Narrow, "handler": lambda event, tx: None}, "does not fit its model any more"),
        ({"name": "payment"}, "is none of this consumer's any more: bring it back; its effect"),
    ],
    ids=["model", "name"],
)
def test_an_effect_that_was_not_done_is_not_reported_as_unknown(
    make: Make, options: dict[str, Any], text: str
) -> None:
    till, event = make(*[NotDone()] * 3), note()
    assert not till.deliver(event)
    assert till.standing == "not-done"
    original, till.consumer = till.consumer, consumer_of(till.provider, **options)
    assert till.deliver(event)
    [(reason, error)] = till.dead_letters()
    assert (reason, text in error) == ("permanent", True)
    assert till.standing == "not-done"
    till.consumer = original
    assert till.deliver(event)
    till.assert_paid_once(calls=4)


def too_large(event: Note, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": "large", "text": "x" * Limits.ITEM_BYTES})


def other_request(event: Note, tx: Transaction) -> None:
    tx.perform(consumer_of(None).effects["charge"], Charge("a", 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("handler", [too_large, other_request, None])
def test_a_handler_whose_writes_are_refused_hides_no_pending_effect(
    make: Make, handler: Callable[..., None] | None
) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        if till.provider.calls and handler is not None:
            handler(event, tx)
        tx.perform(till.effect, Charge(event.name, event.amount))

    till = make(handler=pay)
    event = till.leave_pending(charged=True)
    till.later()
    with till.faults(*[refused("ValidationException")] * (handler is None)):
        assert till.deliver(event)
    till.assert_paid_once(calls=2)


def test_a_conflict_with_a_pending_effect_names_it(till: Till) -> None:
    till.leave_pending(note(event_id="e"))
    assert till.deliver(note(event_id="e", amount=9))
    [(reason, error)] = till.dead_letters()
    assert reason == "key-conflict"
    assert f"may have happened under the provider key {till.record['provider_key']}" in error
