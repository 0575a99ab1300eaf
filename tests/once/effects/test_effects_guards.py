"""What an effect must not be asked for: refused before anything is called or written."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from once.consumer import Consumer
from once.handlers.effect_declaration import Call, Effect, Policy
from once.handlers.transaction import Transaction
from tests.in_memory import Start
from tests.once.effects.provider import (
    SETTINGS,
    TAKEOVER,
    Charge,
    Declined,
    Killed,
    Paid,
    Provider,
    Till,
    consumer_of,
)
from tests.once.support import COUNTERS, Note, amounts, facts, note

Ask = Callable[[Transaction, Effect], None]
A = Charge("a", 1)


class Other(Struct):
    """A request of another model."""

    name: str


def foreign() -> Effect:
    """An effect of another consumer, under the same name."""
    return consumer_of(Provider()).effects["charge"]


def twice(tx: Transaction, effect: Effect) -> None:
    tx.perform(effect, A)
    tx.perform(effect, A)


def published_before(tx: Transaction, effect: Effect) -> None:
    tx.publish("paid", {})
    tx.perform(effect, A)


def published_after(tx: Transaction, effect: Effect) -> None:
    tx.perform(effect, A)
    tx.publish("paid", {})


def of_another_model(tx: Transaction, effect: Effect) -> None:
    tx.perform(effect, Other("a"))


def of_another_consumer(tx: Transaction, effect: Effect) -> None:
    tx.perform(foreign(), A)


def against_the_model(tx: Transaction, effect: Effect) -> None:
    tx.perform(effect, Charge("a", "much"))  # type: ignore[arg-type]


ASKED: dict[Ask, str] = {
    twice: "one effect an event: publish an event, and let it cause the next",
    published_before: "publish it in the function that completes the effect",
    published_after: "publish it in the function that completes the effect",
    of_another_model: "the effect 'charge' takes a Charge",
    of_another_consumer: "'charge' is none of this consumer's: declare it with @consumer.effect",
    against_the_model: "the request of 'charge' breaks its model: Expected `int`, got `str`",
}


def letter(till: Till) -> dict[str, str]:
    [only] = till.aws.dead_letters()
    return facts(only)


@pytest.mark.parametrize("ask", ASKED, ids=lambda ask: ask.__name__)
def test_what_must_not_be_asked_for_is_neither_called_nor_written(start: Start, ask: Ask) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": "half done", "amount": 1})
        ask(tx, consumer.effects["charge"])

    provider = Provider()
    consumer = consumer_of(provider, handler=pay)
    till = Till(start(consumer, **SETTINGS), consumer, provider)
    assert till.deliver(note())
    found = letter(till)
    assert (found["reason"], provider.calls) == ("invalid-write", [])
    assert ASKED[ask] in found["error"]
    assert till.aws.items("dedup") == till.aws.items("counters") == []


def test_a_completion_asks_for_no_effect(start: Start) -> None:
    def complete(event: Note, outcome: Paid, tx: Transaction) -> None:
        tx.perform(consumer.effects["charge"], A)

    provider = Provider()
    consumer = consumer_of(provider, completion=complete)
    till = Till(start(consumer, **SETTINGS), consumer, provider)
    assert till.deliver(note())
    assert "one effect an event" in letter(till)["error"]
    assert len(provider.calls) == 1
    assert till.standing == "unknown"


@pytest.mark.parametrize("by", ["handler", "provider"])
def test_an_answer_to_a_refusal_asks_for_no_effect(start: Start, by: str) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        if by == "handler":
            raise Declined
        tx.perform(consumer.effects["charge"], A)

    def answer(event: Note, refusal: Declined, tx: Transaction) -> None:
        tx.perform(consumer.effects["charge"], A)

    provider = Provider(plan=[Declined()])
    consumer = consumer_of(provider, handler=pay)
    consumer.rejections.clear()
    consumer.rejects(Declined)(answer)
    till = Till(start(consumer, **SETTINGS), consumer, provider)
    assert till.deliver(note())
    assert "one effect an event" in letter(till)["error"]
    assert len(provider.calls) == (by == "provider")


def test_state_may_be_written_beside_the_intent_and_stands_while_the_effect_is_pending(
    start: Start,
) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": "begun", "amount": 1}, condition="attribute_not_exists(amount)")
        tx.perform(consumer.effects["charge"], Charge(event.name, event.amount))

    provider = Provider(plan=[Killed()])
    consumer = consumer_of(provider, handler=pay)
    till = Till(start(consumer, **SETTINGS), consumer, provider)
    event = note()
    assert till.killed(event)
    assert amounts(till.aws) == {"begun": 1}
    till.later()
    assert till.deliver(event)  # the handler's own condition fails now, and says nothing
    assert amounts(till.aws) == {"begun": 1, "a": 1}


def test_a_pending_request_that_the_model_no_longer_takes_is_for_a_person(start: Start) -> None:
    class Narrow(Struct):
        name: str
        amount: Annotated[int, Meta(ge=100)]

    def narrowed(request: Narrow, call: Call) -> Any:
        raise NotImplementedError

    provider = Provider(plan=[Killed()])
    old = consumer_of(provider)
    till = Till(start(old, **SETTINGS), old, provider)
    event = note()
    assert till.killed(event)
    new = Consumer("notes")
    effect = new.effect("charge", Narrow, policy=Policy.AT_LEAST_ONCE)(narrowed)
    new.handles("noted", Note)(lambda event, tx: tx.perform(effect, Narrow(event.name, 100)))
    new.completes(effect)(lambda event, outcome, tx: None)
    till.consumer = new
    till.later(TAKEOVER)
    assert till.deliver(event)
    found = letter(till)
    assert found["reason"] == "effect-unknown"
    assert "does not fit its model any more: bring the model back" in found["error"]
    assert till.standing == "unknown"
    till.consumer = old
    assert till.deliver(event)
    assert amounts(till.aws) == {"a": 1}
