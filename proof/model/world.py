"""One state of the world: what the queues, the tables, the provider and the functions hold.

States are immutable and compared by value, so that one that was reached on two ways is explored
once. Time is only what matters of it: days, which pass while no function runs.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from proof.model.calls import Call, Event, Found, Letter, Record, Reply


class Message(NamedTuple):
    """A message in the queue.

    Attributes:
        id: SQS's name for it.
        event: what it says; its business key stays when it is sent back.
        receives: how often it was delivered.
        holder: the function whose end makes it visible; empty where it is visible.
        acknowledged: whether some function's answer did not name it.
        deleted: whether SQS has deleted it.
        lineage: how often it was sent back.
        faults: how many could still happen when it was sent.
    """

    id: str
    event: Event
    faults: int
    receives: int = 0
    holder: str = ""
    acknowledged: bool = False
    deleted: bool = False
    lineage: int = 0


class Applied(NamedTuple):
    """A row that a commit wrote: the ledger by which effects are counted."""

    key: str
    content: str
    item: str
    refused: bool


class Streamed(NamedTuple):
    """A record of the table's stream that the relay's filter lets through."""

    key: str
    removed: bool


class Saved(NamedTuple):
    """What a provider remembers of an idempotency key, and since which day."""

    key: str
    answer: str
    day: int


class Worker(NamedTuple):
    """A running function. It is what it was started with, and what it was told since.

    Attributes:
        name: unlike any other's.
        role: the part of the protocol that it runs.
        argument: what that was started with.
        replies: the answers to its calls so far, in their order.
    """

    name: str
    role: str
    argument: Any
    replies: tuple[Reply, ...] = ()


class World(NamedTuple):
    """Everything there is. Collections are sorted where order means nothing.

    Attributes:
        faults: how many may still happen.
        day: how many days have passed.
        queue: the consumer's messages, those that were deleted among them.
        letters: its dead-letter queue.
        lettered: the ids of all that were ever in it.
        records: the dedup records by key.
        applied: the rows that commits wrote.
        stream: what the relay has not passed yet.
        feed: events on their way to the consumer downstream.
        seen: the ids that it remembers.
        reached: its effects.
        saved: what the provider remembers.
        charges: the keys of the events that were charged, or mailed.
        air: calls whose callers gave them up, and which arrive later.
        workers: the running functions.
        forgotten: whether the window has ended, and TTL has removed the records.
    """

    faults: int
    day: int = 0
    queue: tuple[Message, ...] = ()
    letters: tuple[Letter, ...] = ()
    lettered: tuple[str, ...] = ()
    records: tuple[tuple[str, Record], ...] = ()
    applied: tuple[Applied, ...] = ()
    stream: tuple[Streamed, ...] = ()
    feed: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()
    saved: tuple[Saved, ...] = ()
    charges: tuple[str, ...] = ()
    air: tuple[Call, ...] = ()
    workers: tuple[Worker, ...] = ()
    forgotten: bool = False

    def runs(self, name: str) -> bool:
        """Tell whether a function runs."""
        return any(worker.name == name for worker in self.workers)

    def record(self, key: str) -> Record | None:
        """Return a dedup record, or None."""
        return next((record for name, record in self.records if name == key), None)

    def found(self, key: str) -> Found | None:
        """Return a dedup record as a function finds it now, or None where the key is free.

        A lease runs until Lambda has certainly ended its owner: here, exactly as long.
        """
        record = self.record(key)
        if record is None or record.expires <= self.day:
            return None
        owner = record.intent.owner.partition("/")[0] if record.intent else ""
        return Found(record, self.runs(owner))

    def put(self, key: str, record: Record) -> "World":
        """Return the world with a dedup record."""
        others = [pair for pair in self.records if pair[0] != key]
        return self._replace(records=tuple(sorted([*others, (key, record)])))

    def with_message(self, message: Message) -> "World":
        """Return the world with a message in its queue, in the place of what had its id."""
        others = (other for other in self.queue if other.id != message.id)
        return self._replace(queue=ordered([*others, message]))

    def without(self, name: str) -> "World":
        """Return the world without a function; what waited for its end is visible now."""
        queue = (m._replace(holder="") if m.holder == name else m for m in self.queue)
        workers = (worker for worker in self.workers if worker.name != name)
        return self._replace(queue=tuple(queue), workers=tuple(workers))


def ordered(items: Iterable[Any]) -> tuple[Any, ...]:
    """Return what has no order of its own in the one order that equal states share."""
    return tuple(sorted(items, key=repr))
