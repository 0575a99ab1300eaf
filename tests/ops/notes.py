"""The consumer of notes: its handlers under keys of every kind, and its calls to the outside."""

from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from once.consumer import Consumer
from once.effects.declaration import Call, Policy
from once.events.identity import Key
from once.ops.aws.deployment import DeployedConsumer
from once.testing import cloud_event
from once.transaction import Transaction

HOUR, DAY = 3600, 24 * 3600
KEY_LIFETIME = 23 * HOUR
KEY = "orders#event#/test#id-a"  # of note("a")


class Note(Struct, frozen=True):
    """The data of every event here: a counter, and a number to add to it."""

    name: str
    amount: int = 1
    sent: str = ""


@dataclass
class Outside:
    """Errors and outcomes for the consumer's code."""

    faults: dict[str, Exception] = field(default_factory=dict)
    """The exception that a handler raises, by counter."""
    answers: list[Exception] = field(default_factory=list)
    """The exceptions of the effect's next calls; without one, a call succeeds."""
    calls: list[str] = field(default_factory=list)
    """The provider keys of the calls."""

    def meet(self, name: str) -> None:
        if name in self.faults:
            raise self.faults[name]

    def called(self, call: Call) -> str:
        self.calls.append(call.key)
        if self.answers:
            raise self.answers.pop(0)
        return "reference"


def consumer(outside: Outside, policy: Policy | None = None) -> Consumer:
    """The consumer: it counts, under keys of every kind; with a policy, after an effect."""
    consumer = Consumer("orders")
    counters = consumer.table("counters")

    def count(event: Note, tx: Transaction) -> None:
        outside.meet(event.name)
        tx.update(counters, {"name": event.name}, "ADD amount :a", {":a": event.amount})

    if policy is None:
        consumer.handles("noted", Note)(count)
        consumer.handles("named", Note, key=Key.field("name"))(count)
        consumer.handles("stamped", Note, volatile=("sent",))(count)
        consumer.handles("nameless", Note, key=Key.content(), volatile=("sent",))(count)
    else:
        _handle_after_effect(consumer, outside, policy, count)
    return consumer


def _handle_after_effect(consumer: Consumer, outside: Outside, policy: Policy, count: Any) -> None:
    lifetime = KEY_LIFETIME if policy is Policy.PROVIDER_KEY else 0

    @consumer.effect("charge", Note, policy=policy, key_lifetime_seconds=lifetime)
    def charge(request: Note, call: Call) -> str:
        return outside.called(call)

    @consumer.handles("noted", Note)
    def begin(event: Note, tx: Transaction) -> None:
        tx.perform(charge, event)

    @consumer.completes(charge)
    def charged(event: Note, outcome: str, tx: Transaction) -> None:
        count(event, tx)


def note(name: str = "a", event_type: str = "noted", **attributes: Any) -> dict[str, Any]:
    data = {"name": name, **attributes.pop("data", {})}
    return cloud_event(
        event_type, data, event_id=attributes.pop("event_id", f"id-{name}"), **attributes
    )


def deployed(consumer: Consumer) -> DeployedConsumer:
    """A consumer with the key rules of its handlers, as the stack's outputs state them."""
    return DeployedConsumer(
        *(consumer.name, "", "", ""),
        external=(*consumer.handlers,),
        keys={name: one.key for name, one in consumer.handlers.items()},
        volatile={name: (*one.volatile,) for name, one in consumer.handlers.items()},
    )
