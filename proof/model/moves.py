"""What can happen next in a state of the world: by itself, or as a fault."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from proof.model.calls import Call, Delivery, Reply
from proof.model.carriers import Operator, Relay
from proof.model.consumer import Consumer, Invocation
from proof.model.faults import CRASHED, Fault, outcomes
from proof.model.program import next_call
from proof.model.scopes import Scope
from proof.model.services import lettered, serve
from proof.model.words import named, said
from proof.model.world import Message, Streamed, Worker, World, ordered

_RELAY_BATCH = 2


@dataclass(frozen=True)
class Parts:
    """A protocol: the real one by default, and broken ones by what differs."""

    consumer: type[Consumer] = Consumer
    relay: type[Relay] = Relay
    operator: type[Operator] = Operator
    deduplicates_downstream: bool = True

    def of(self, role: str) -> Any:
        """Return the part that a function runs."""
        return getattr(self, role)


class Move(NamedTuple):
    """Something that happens: in words, with the world after it, and the fault that it is."""

    words: str
    world: World
    fault: Fault | None = None


def moves(parts: Parts, scope: Scope, world: World) -> Iterator[Move]:
    """Yield all that can happen next; nothing where the world is at rest.

    What lies before the consumer downstream is taken at once: that touches nothing which another
    move reads or writes, so any other order ends in the same states.
    """
    if world.feed:
        yield _downstream(parts, world)
        return
    yield from _steps(parts, world)
    yield from _deliveries(parts, scope, world)
    yield from _late(world)
    if world.stream and not world.runs("relay"):
        yield Move(
            "Lambda starts the relay",
            _started(parts, world, Worker("relay", "relay", world.stream[:_RELAY_BATCH])),
        )
    yield from _redrives(parts, scope, world)
    yield from _time(scope, world)


def _downstream(parts: Parts, world: World) -> Move:
    event, *feed = world.feed
    known = parts.deduplicates_downstream and event in world.seen
    after = world._replace(feed=tuple(feed), seen=ordered({*world.seen, event}))
    if known:
        return Move(f"downstream: {event} is a duplicate", after)
    return Move(f"downstream: {event}", after._replace(reached=ordered([*world.reached, event])))


def _steps(parts: Parts, world: World) -> Iterator[Move]:
    for worker in world.workers:
        call = next_call(parts.of(worker.role), worker.name, worker.argument, worker.replies)
        assert call is not None  # noqa: S101
        after, reply = serve(world, worker.name, call)
        yield Move(_words(worker, call, said(reply)), _told(parts, after, worker, reply))
        if not world.faults:
            continue
        for fault, after, reply in outcomes(world, worker.name, call):
            told = _told(parts, _spent(after), worker, reply)
            yield Move(_words(worker, call, fault), told, fault)


def _told(parts: Parts, world: World, worker: Worker, reply: Reply) -> World:
    """Return the world in which a function has its answer, or has ended."""
    if reply == CRASHED:
        return world.without(worker.name)
    return _started(parts, world, worker._replace(replies=(*worker.replies, reply)))


def _started(parts: Parts, world: World, worker: Worker) -> World:
    if next_call(parts.of(worker.role), worker.name, worker.argument, worker.replies) is None:
        return world.without(worker.name)
    others = (other for other in world.workers if other.name != worker.name)
    return world._replace(workers=tuple(sorted([*others, worker], key=lambda one: one.name)))


def _spent(world: World) -> World:
    return world._replace(faults=world.faults - 1)


def _deliveries(parts: Parts, scope: Scope, world: World) -> Iterator[Move]:
    waiting = [m for m in world.queue if not (m.deleted or m.holder)]
    for message in waiting:
        if message.receives >= scope.receives:
            moved = lettered(world, message, "").with_message(message._replace(deleted=True))
            yield Move(f"SQS moves message {message.id} to the dead-letter queue", moved)
    fresh = [message for message in waiting if message.receives < scope.receives]
    for size in range(1, scope.batch + 1):
        for batch in combinations(fresh, size):
            if not _passes_over(fresh, batch):
                yield _delivered(parts, scope, world, batch)
    if not world.faults or world.forgotten:
        return
    for message in world.queue:
        if (message.deleted or message.holder) and message.receives < scope.receives:
            fault = Fault.REDELIVERED if message.deleted else Fault.VISIBILITY_ENDED
            again = _delivered(parts, scope, _spent(world), (message,))
            yield Move(f"{again.words}: {fault}", again.world, fault)


def _passes_over(fresh: Sequence[Message], batch: Sequence[Message]) -> bool:
    """Whether an earlier copy of an event is left out, and is as untouched as one that is not.

    To take the one is to take the other, by another name.
    """
    left = [message for message in fresh if message not in batch and not message.receives]
    return any(
        (earlier.event, 0) == (later.event, later.receives) and earlier.id < later.id
        for earlier in left
        for later in batch
    )


def _delivered(parts: Parts, scope: Scope, world: World, batch: tuple[Message, ...]) -> Move:
    name = "+".join(f"{message.id}.{message.receives + 1}" for message in batch)
    deliveries = tuple(_delivery(scope, message) for message in batch)
    for message in batch:
        received = message._replace(receives=message.receives + 1, holder=name, deleted=False)
        world = world.with_message(received)
    worker = Worker(name, "consumer", Invocation(world.day, deliveries))
    words = f"SQS delivers message {' and '.join(message.id for message in batch)} to {name}"
    return Move(words, _started(parts, world, worker))


def _delivery(scope: Scope, message: Message) -> Delivery:
    receives = message.receives + 1
    return Delivery(message.id, message.event, receives, last=receives == scope.receives)


def _late(world: World) -> Iterator[Move]:
    for call in dict.fromkeys(world.air):
        rest = list(world.air)
        rest.remove(call)
        landed, _ = serve(world._replace(air=tuple(rest)), "", call)
        yield Move(f"late: {named(call)}", landed)


def _redrives(parts: Parts, scope: Scope, world: World) -> Iterator[Move]:
    """A person is later than any function that runs, and any call that is on its way."""
    if world.air or world.workers:
        return
    for letter in world.letters:
        if letter.lineage < scope.redrives:
            operator = Worker(f"operator {letter.id}", "operator", letter)
            yield Move(f"an operator redrives {letter.id}", _started(parts, world, operator))


def _time(scope: Scope, world: World) -> Iterator[Move]:
    """A day is longer than any function runs, and the window than any message lives."""
    if world.workers or world.air or world.stream:
        return
    if world.day < scope.days:
        yield Move("a day passes", world._replace(day=world.day + 1))
    elif scope.days and not (world.forgotten or _lives(world)):
        yield Move("the window ends, and TTL removes the records", _forget(world))


def _lives(world: World) -> bool:
    return bool(world.letters) or not all(message.deleted for message in world.queue)


def _forget(world: World) -> World:
    removed = tuple(Streamed(key, removed=True) for key, r in world.records if not r.intent)
    pending = tuple((key, record) for key, record in world.records if record.intent)
    return world._replace(records=pending, stream=removed, seen=(), forgotten=True)


def _words(worker: Worker, call: Call, outcome: str) -> str:
    return f"{worker.name}: {named(call)}: {outcome}"
