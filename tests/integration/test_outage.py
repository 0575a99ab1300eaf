"""An outage of the payment provider for two hours, in virtual time.

The consumer, its commits and its effect ledger are real. The queue is simulated: visibility,
receive counts, and that an idle function is replaced by a new one without state.
"""

import heapq
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from once import Call, Consumer, NotDone, Policy, Transaction
from once.settings import TableSettings
from once.testing import FakeContext, cloud_event
from stacks.consumers import CONSUMERS
from tests.integration.probe import Bench
from tests.once.support import record

MESSAGES, PROCESSES = 120, 3
OUTAGE_SECONDS = 2 * 60 * 60
IDLE_SECONDS = 10 * 60
"""After this time a function is replaced by a new one."""
CALL_SECONDS = 0.2
START = time.time()
[RECEIVES] = [line.max_receive_count for line in CONSUMERS if line.name == "payments"]

Handle = Callable[[dict[str, Any], Any], Any]


class Charge(Struct, frozen=True):
    """The request to the provider."""

    order: str


@dataclass
class World:
    """Virtual time, the provider, and the requests to the queue."""

    down_until: float
    now: float = START
    charges: set[str] = field(default_factory=set)
    failed_calls: int = 0
    delays: dict[str, int] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)

    def charge(self, request: Charge, call: Call) -> str:
        self.now += CALL_SECONDS
        if self.now < self.down_until:
            self.failed_calls += 1
            raise NotDone("503")
        self.charges.add(call.key)
        return request.order

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def change_message_visibility(self, **parameters: Any) -> None:
        self.delays[parameters["ReceiptHandle"]] = parameters["VisibilityTimeout"]

    def send_message(self, **parameters: Any) -> None:
        self.dead.append(parameters["MessageBody"])


@dataclass
class Process:
    """One function process, which loses its state after an idle time."""

    make: Callable[[], Handle]
    used_at: float = -IDLE_SECONDS
    handle: Handle | None = None

    def invoke(self, record: dict[str, Any], world: World) -> bool:
        """Return whether the message failed."""
        if self.handle is None or world.now - self.used_at > IDLE_SECONDS:
            self.handle = self.make()
        answer = self.handle({"Records": [record]}, FakeContext(30_000))
        self.used_at = world.now
        return bool(answer["batchItemFailures"])


def consumer_of(world: World) -> Consumer:
    consumer = Consumer("probe")
    paid = consumer.table("counters")
    charge = consumer.effect(
        "charge", Charge, policy=Policy.PROVIDER_KEY, key_lifetime_seconds=23 * 60 * 60
    )(world.charge)

    @consumer.handles("stock.reserved", Charge)
    def pay(event: Charge, tx: Transaction) -> None:
        tx.perform(charge, event)

    @consumer.completes(charge)
    def write_down(event: Charge, outcome: str, tx: Transaction) -> None:
        tx.update(paid, {"id": outcome}, "ADD amount :one", {":one": 1})

    return consumer


def run(world: World, processes: list[Process], messages: int) -> list[int]:
    """Deliver until the queue is empty; return the receives of each message."""
    receives = [0] * messages
    visible = [(START, number) for number in range(messages)]
    while visible:
        at, number = heapq.heappop(visible)
        world.now = max(world.now, at)
        receives[number] += 1
        assert receives[number] <= RECEIVES, "SQS itself would have dead-lettered it"
        body = cloud_event("stock.reserved", {"order": f"o-{number}"}, event_id=f"e-{number}")
        message = record(json.dumps(body), str(number), receive_count=receives[number])
        if random.choice(processes).invoke(message, world):
            heapq.heappush(
                visible, (world.now + world.delays.pop(message["receiptHandle"]), number)
            )
    return receives


def outage(bench: Bench, seconds: float, messages: int) -> tuple[World, list[int]]:
    world = World(down_until=START + seconds)
    consumer = consumer_of(world)
    more: dict[str, Any] = {
        "event_types": ("stock.reserved",),
        "tables": {"counters": TableSettings(bench.counters, ("id",))},
        "effect_timeout_seconds": 2,
        "max_receive_count": RECEIVES,
    }
    sqs: Any = SimpleNamespace(
        change_message_visibility=world.change_message_visibility, send_message=world.send_message
    )
    runtime = replace(
        bench.runtime,
        settings=replace(bench.settings, **more),
        sqs=sqs,
        clock=lambda: world.now,
        sleep=world.sleep,
    )
    processes = [Process(lambda: consumer.bound_to(runtime)) for _ in range(PROCESSES)]
    return world, run(world, processes, messages)


def test_an_outage_of_two_hours_dead_letters_nothing_and_charges_once(bench: Bench) -> None:
    world, receives = outage(bench, OUTAGE_SECONDS, MESSAGES)
    assert world.dead == []
    assert len(world.charges) == MESSAGES
    assert [bench.amount(f"o-{n}") for n in range(0, MESSAGES, 29)] == [1] * 5
    assert max(receives) <= RECEIVES - 2
    # The breaker limits calls to a provider that is down; each attempt makes up to three.
    assert world.failed_calls < 2 * MESSAGES
    assert world.now - world.down_until < 90 * 60


def test_without_the_breaker_the_same_outage_dead_letters_messages(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("once.failures.circuit_breaker._IN_A_ROW", 1_000_000)
    world, _ = outage(bench, OUTAGE_SECONDS, 8)
    assert len(world.dead) > 4
