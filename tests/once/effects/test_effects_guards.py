"""Invalid requests of an effect: refused before a call or a write."""

from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from once.consumer import Consumer
from once.effects.declaration import Effect, Policy
from once.transaction import Transaction
from tests.once.effects.provider import (
    TAKEOVER,
    Charge,
    Declined,
    Make,
    Provider,
    Step,
    Till,
    consumer_of,
)
from tests.once.support import COUNTERS, Note, note

A = Charge("a", 1)
EFFECT = consumer_of(Provider()).effects["charge"]
"""An effect of another consumer, under the same name."""


class Other(Struct):
    name: str


class Narrow(Struct):
    name: str
    amount: Annotated[int, Meta(ge=100)]


INVALID: dict[str, tuple[list[Any], str]] = {
    "two effects": ([A, A], "one effect an event: publish an event, and let it cause the next"),
    "published before": (["paid", A], "publish it in the function that completes the effect"),
    "published after": ([A, "paid"], "publish it in the function that completes the effect"),
    "another model": ([Other("a")], "the effect 'charge' takes a Charge"),
    "another type": (
        [Charge("a", "much")],  # type: ignore[arg-type]
        "the request of 'charge' breaks its model: Expected `int`, got `str`",
    ),
    "another consumer's effect": (
        [EFFECT],
        "'charge' is none of this consumer's: declare it with @consumer.effect",
    ),
}


def assert_refused(till: Till, text: str) -> None:
    [(reason, error)] = till.dead_letters()
    assert reason == "invalid-write"
    assert text in error


@pytest.mark.parametrize(("steps", "text"), INVALID.values(), ids=INVALID)
def test_an_invalid_request_is_neither_called_nor_written(
    make: Make, steps: list[Any], text: str
) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": "half done", "amount": 1})
        for step in steps:
            if isinstance(step, str):
                tx.publish(step, {})
            elif isinstance(step, Effect):
                tx.perform(step, A)
            else:
                tx.perform(till.effect, step)

    till = make(handler=pay)
    assert till.deliver(note())
    assert_refused(till, text)
    assert till.provider.calls == []
    assert till.aws.items("dedup") == till.aws.items("counters") == []


def refuse(event: Note, tx: Transaction) -> None:
    raise Declined


def request_another(event: Note, cause: Any, tx: Transaction) -> None:
    tx.perform(EFFECT, A)


@pytest.mark.parametrize(
    ("plan", "options", "calls"),
    [
        ([], {"completion": request_another}, 1),
        ([Declined()], {"rejection": request_another}, 1),
        ([], {"rejection": request_another, "handler": refuse}, 0),
    ],
    ids=["completion", "rejection of the provider", "rejection of the handler"],
)
def test_only_a_handler_requests_an_effect(
    make: Make, plan: list[Step], options: dict[str, Any], calls: int
) -> None:
    till = make(*plan, **options)
    assert till.deliver(note())
    assert_refused(till, "one effect an event")
    assert len(till.provider.calls) == calls
    assert [item["standing"] for item in till.aws.items("dedup")] == ["settled"] * calls


def narrowed_consumer() -> Consumer:
    def pay(event: Note, tx: Transaction) -> None:
        tx.perform(consumer.effects["charge"], Narrow(event.name, 100))

    options: Any = {"policy": Policy.AT_LEAST_ONCE, "model": Narrow, "handler": pay}
    consumer = consumer_of(Provider(), **options)
    return consumer


@pytest.mark.parametrize(
    ("changed", "standing", "text"),
    [
        pytest.param(
            narrowed_consumer(),
            "unknown",
            "EffectUnknown: the pending request of 'charge' does not fit its model any more: bring "
            "the model back: Expected `int` >= 100 - at `$.amount`; its effect 'charge' may have "
            "happened under the provider key {key}: find out outside whether it did",
            id="model",
        ),
        pytest.param(
            consumer_of(Provider(), name="payment"),
            "in-flight",
            "EffectUnknown: the pending effect 'charge' is none of this consumer's any more: bring "
            "it back; its effect 'charge' may have happened under the provider key {key}: find out "
            "outside whether it did",
            id="name",
        ),
    ],
)
def test_a_pending_effect_whose_declaration_changed_is_quarantined_until_it_is_restored(
    till: Till, changed: Consumer, standing: str, text: str
) -> None:
    event = till.leave_pending()
    till.later(TAKEOVER)
    original, till.consumer = till.consumer, changed
    assert till.deliver(event)
    [(key, _)] = till.provider.calls
    assert till.dead_letters() == [("effect-unknown", text.format(key=key))]
    assert till.standing == standing
    till.consumer = original
    assert till.deliver(event)
    till.assert_paid_once(calls=2)
