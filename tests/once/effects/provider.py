"""A consumer with one effect, and the provider that it calls: what the tests of effects share."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from once.consumer import Consumer
from once.errors import Refusal
from once.handlers.effect_declaration import Call, Policy
from once.handlers.transaction import Transaction
from once.schema import CLOCK_MARGIN_SECONDS
from once.testing import FakeAws, FakeContext
from tests.once.support import COUNTERS, Note, invoke, record

TIMEOUT = 2
LIFETIME = 23 * 60 * 60
LEASE = 30
"""What a `FakeContext` has left, in seconds: after it the owner has ended."""
TAKEOVER = LEASE + CLOCK_MARGIN_SECONDS
"""When an effect that no provider key protects may be taken over, in seconds."""
NOW = 1_700_000_000.0
SETTINGS: dict[str, Any] = {"effect_timeout_seconds": TIMEOUT, "publishes": ("paid", "declined")}


class Killed(BaseException):
    """Stands for the end of the function's process at this point."""


class Charge(Struct, frozen=True):
    """What the provider is asked for."""

    name: str
    amount: int


class Paid(Struct, frozen=True):
    """The card was charged."""

    charge_id: str


class Declined(Refusal):
    """The customer's bank says no."""


@dataclass
class Provider:
    """Charges once for each key, and meets faults to order.

    Attributes:
        calls: the key and the bytes of every call.
        charges: what was charged, by key.
        plan: what the next calls meet, in order: an error instead of the charge, or a function,
            whose own error comes after the charge.
    """

    calls: list[tuple[str, bytes]] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)
    charges: dict[str, bytes] = field(default_factory=dict)
    plan: list[BaseException | Callable[[], object] | None] = field(default_factory=list)

    def charge(self, request: Charge, call: Call) -> Paid:
        self.calls.append((call.key, msgspec.json.encode(request)))
        self.timeouts.append(call.timeout_seconds)
        step = self.plan.pop(0) if self.plan else None
        if isinstance(step, BaseException):
            raise step
        self.charges.setdefault(call.key, msgspec.json.encode(request))
        if step is not None:
            step()
        return Paid(f"of {request.name}")

    @property
    def keys(self) -> list[str]:
        """The keys of the calls, by their last part: how often a new one was taken."""
        return [key.rpartition("-")[2] for key, _ in self.calls]


def after(error: BaseException) -> Callable[[], None]:
    """A step of the plan: it is charged, and the answer is an error all the same."""

    def fail() -> None:
        raise error

    return fail


def captured(event: Note, outcome: Paid, tx: Transaction) -> None:
    tx.update(COUNTERS, {"name": event.name}, "ADD amount :a", {":a": event.amount})
    tx.publish("paid", {"charge": outcome.charge_id})


def declined(event: Note, refusal: Declined, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": f"declined {event.name}", "amount": 0})
    tx.publish("declined", {"why": str(refusal)})


def consumer_of(
    provider: Provider,
    *,
    policy: Policy = Policy.PROVIDER_KEY,
    handler: Callable[..., None] | None = None,
    completion: Callable[..., None] = captured,
    look_up: Callable[..., Any] | None = None,
    name: str = "charge",
) -> Consumer:
    consumer = Consumer("notes")
    consumer.table("counters")
    lifetime = LIFETIME if policy is Policy.PROVIDER_KEY else 0
    declare = consumer.effect(name, Charge, policy=policy, key_lifetime_seconds=lifetime)
    effect = declare(provider.charge)
    if look_up is not None:
        effect.looks_up(look_up)

    def pay(event: Note, tx: Transaction) -> None:
        tx.perform(effect, Charge(event.name, event.amount))

    consumer.handles("noted", Note)(handler or pay)
    consumer.completes(effect)(completion)
    consumer.rejects(Declined)(declined)
    return consumer


class Till:
    """The function, its AWS and its provider; its time stands still until it is moved."""

    def __init__(self, aws: FakeAws, consumer: Consumer, provider: Provider) -> None:
        self.aws = aws
        self.consumer = consumer
        self.provider = provider
        self.context = FakeContext()
        aws.time = NOW

    def deliver(self, event: Any, *, receive_count: int = 1, remaining_ms: int = 30_000) -> bool:
        """Let the function work on one delivery; tell whether it was acknowledged."""
        self.context.remaining_ms = remaining_ms
        message = record(json.dumps(event), "message", receive_count=receive_count)
        return invoke(self.aws, self.consumer, message, context=self.context) == []

    def killed(self, event: Any) -> bool:
        """Let the function work on a delivery; tell whether it was killed at it."""
        try:
            self.deliver(event)
        except Killed:
            return True
        return False

    def later(self, seconds: float = LEASE) -> None:
        assert self.aws.time is not None
        self.aws.time += seconds

    @property
    def record(self) -> dict[str, Any]:
        """The only dedup record."""
        [only] = self.aws.items("dedup")
        return only

    @property
    def standing(self) -> str:
        """What is known of the pending effect; `done` where nothing is pending."""
        found: str = self.record.get("standing") or self.record["state"]
        return found

    @property
    def published(self) -> list[str]:
        return [event["type"] for event in json.loads(self.record.get("outbox", "[]"))]


@contextmanager
def kill(client: Any, nth: int, *, done: bool) -> Iterator[None]:
    """Kill the function at its nth write, before it is done or before its answer arrives."""
    hook = f"{'after' if done else 'before'}-call.dynamodb.TransactWriteItems"
    writes = iter(range(1, nth + 1))

    def end(**_: Any) -> None:
        if next(writes, nth + 1) == nth:
            raise Killed

    client.meta.events.register(hook, end)
    try:
        yield
    finally:
        client.meta.events.unregister(hook, end)


def start_till(
    start: Callable[..., FakeAws],
    provider: Provider,
    *,
    margin: int = CLOCK_MARGIN_SECONDS,
    **options: Any,
) -> Till:
    """Start the function with an effect at this provider; options are those of `consumer_of`."""
    consumer = consumer_of(provider, **options)
    aws = start(consumer, **SETTINGS, lease_margin_seconds=margin)
    return Till(aws, consumer, provider)
