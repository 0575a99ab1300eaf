"""A consumer with one effect, and the payment provider that it calls."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from once.consumer import Consumer
from once.effects.declaration import Call, Effect, Policy
from once.errors import Refusal
from once.names import CLOCK_MARGIN_SECONDS
from once.testing import FakeAws, FakeContext, Fault, inject
from once.transaction import Transaction
from tests.once.support import (
    COUNTERS,
    Killed,
    Note,
    amounts,
    calls,
    die,
    facts,
    invoke,
    note,
    record,
)

WRITE = "TransactWriteItems"
LAST_RECEIVE = 5  # a message that fails now is dead-lettered
TIMEOUT = 2
LIFETIME = 23 * 60 * 60
LEASE = 30  # the seconds that a `FakeContext` has left
TAKEOVER = LEASE + CLOCK_MARGIN_SECONDS  # seconds until a takeover without a provider key
NOW = 1_700_000_000.0
SETTINGS: dict[str, Any] = {"effect_timeout_seconds": TIMEOUT, "publishes": ("paid", "declined")}


class Charge(Struct, frozen=True):
    name: str
    amount: int


class Paid(Struct, frozen=True):
    charge_id: str


class Declined(Refusal):
    """The customer's bank declines the charge."""


Step = BaseException | Callable[[], object] | None


@dataclass
class Provider:
    """Charges once for each key, and fails as planned.

    Attributes:
        calls: key and request bytes of every call.
        timeouts: the timeout of every call, in seconds.
        charges: the request bytes of every charge, by key.
        plan: one step for each of the next calls: an error to raise instead of the charge, a
            function to run after the charge, or None.
    """

    calls: list[tuple[str, bytes]] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)
    charges: dict[str, bytes] = field(default_factory=dict)
    plan: list[Step] = field(default_factory=list)

    def charge(self, request: Charge, call: Call) -> Paid:
        if Killed.dead:
            die()
        self.calls.append((call.key, msgspec.json.encode(request)))
        self.timeouts.append(call.timeout_seconds)
        step = self.plan.pop(0) if self.plan else None
        if isinstance(step, BaseException):
            fail(step)
        self.charges.setdefault(call.key, msgspec.json.encode(request))
        if step is not None:
            step()
        return Paid(f"of {request.name}")

    @property
    def keys(self) -> list[str]:
        """The number at the end of each call's key: 1, and one more after each renewal."""
        return [key.rpartition("-")[2] for key, _ in self.calls]


def fail(error: BaseException) -> NoReturn:
    """Raise an error in code that the library calls."""
    if isinstance(error, Killed):
        die()
    raise error


def after(error: BaseException) -> Callable[[], None]:
    """Return a step of the plan that raises an error after the charge."""
    return partial(fail, error)


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
    rejection: Callable[..., None] = declined,
    look_up: Callable[..., Any] | None = None,
    name: str = "charge",
    model: type[Any] = Charge,
) -> Consumer:
    consumer = Consumer("notes")
    consumer.table("counters")
    lifetime = LIFETIME if policy is Policy.PROVIDER_KEY else 0
    declare = consumer.effect(name, model, policy=policy, key_lifetime_seconds=lifetime)
    effect = declare(provider.charge)
    if look_up is not None:
        effect.looks_up(look_up)

    def pay(event: Note, tx: Transaction) -> None:
        tx.perform(effect, Charge(event.name, event.amount))

    consumer.handles("noted", Note)(handler or pay)
    consumer.completes(effect)(completion)
    consumer.rejects(Declined)(rejection)
    return consumer


class Till:
    """A consumer with one effect, its AWS and its provider. Only `later` moves its clock."""

    def __init__(self, aws: FakeAws, consumer: Consumer, provider: Provider) -> None:
        self.aws = aws
        self.consumer = consumer
        self.provider = provider
        self.context = FakeContext()
        aws.time = NOW

    def deliver(self, *events: Any, receive_count: int = 1, remaining_ms: int = 30_000) -> bool:
        """Invoke the function with messages; tell whether all of them were acknowledged."""
        self.context.remaining_ms = remaining_ms
        batch = [
            record(json.dumps(event), f"message{n or ''}", receive_count=receive_count)
            for n, event in enumerate(events)
        ]
        return invoke(self.aws, self.consumer, *batch, context=self.context) == []

    def killed(self, event: Any) -> bool:
        """Invoke the function with one message; tell whether it was killed meanwhile."""
        try:
            self.deliver(event)
        except Killed:
            return True
        return False

    def leave_pending(self, event: Any = None, *, charged: bool = False) -> Any:
        """Kill the function at its call, before or after the charge; return the event."""
        event = event or note()
        self.provider.plan = [after(Killed()) if charged else Killed()]
        assert self.killed(event)
        return event

    def later(self, seconds: float = LEASE) -> None:
        assert self.aws.time is not None
        self.aws.time += seconds

    @contextmanager
    def faults(self, *faults: Fault | None) -> Iterator[None]:
        """Let the next writes meet these faults, all of them; None lets a write through."""
        with inject(self.aws.runtime.dynamodb, WRITE, *faults) as left:
            yield
        assert left == []

    @contextmanager
    def delays(self) -> Iterator[list[int]]:
        """Collect the visibility timeouts, in seconds, of the messages that are retried."""
        seconds: list[int] = []
        with calls(self.aws.runtime.sqs) as made:
            yield seconds
        seconds += [parameters["VisibilityTimeout"] for _, parameters in made]

    @property
    def effect(self) -> Effect[Any, Any]:
        return self.consumer.effects["charge"]

    @property
    def record(self) -> dict[str, Any]:
        """The only dedup record."""
        [only] = self.aws.items("dedup")
        return only

    @property
    def standing(self) -> str:
        """The `standing` of a pending record; `done` if the record is done."""
        found: str = self.record.get("standing") or self.record["state"]
        return found

    @property
    def published(self) -> list[str]:
        return [event["type"] for event in json.loads(self.record.get("outbox", "[]"))]

    def dead_letters(self) -> list[tuple[str, str]]:
        """Receive the dead letters; return reason and error of each, without line numbers."""
        found = map(facts, self.aws.dead_letters())
        return [(each["reason"], re.sub(r" at \w+:\d+", "", each["error"])) for each in found]

    def assert_paid_once(self, *, calls: int, amount: int = 1) -> None:
        """Assert that so many calls, all with one key and request, charged and completed once."""
        assert len(self.provider.calls) == calls
        assert len(set(self.provider.calls)) == len(self.provider.charges) == 1
        self.assert_completed(amount=amount)

    def assert_completed(self, *, amount: int = 1) -> None:
        """Assert one completion, and no dead letter that was not yet received."""
        assert amounts(self.aws) == {"a": amount}
        assert (self.standing, self.published) == ("done", ["paid"])
        assert self.dead_letters() == []


Make = Callable[..., Till]  # `make(*plan, **options)` starts a consumer


@contextmanager
def kill(client: Any, nth: int, *, done: bool, operation: str = WRITE) -> Iterator[None]:
    """Kill the function at its nth write, before the write or before its answer."""
    hook = f"{'after' if done else 'before'}-call.dynamodb.{operation}"
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
