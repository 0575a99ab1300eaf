"""Random faults: whatever the order and the faults, each good event counts once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from moto.core.base_backend import BackendDict

from once.testing import FakeAws, FakeContext, Fault, cancelled, inject, refused
from once.testing.faults import answer_lost, never_sent
from once.transaction import Transaction
from tests.once.batch.batches import READ, Entries, faults, items, message
from tests.once.batch.batches import events as ids_in
from tests.once.batch.function import handle
from tests.once.effects.provider import NOW
from tests.once.support import (
    COUNTERS,
    Note,
    SoldOut,
    amounts,
    consumer_of,
    count,
    facts,
    failures,
    quick,
)

BETWEEN_DELIVERIES = 3600
"""Seconds between two deliveries: the longest delay of the circuit breaker."""
MAX_RECEIVES = 60
"""Receives of one message; no storm here lasts longer."""


@dataclass(frozen=True)
class Event:
    """The action of a handler, and its item; `lane` is its FIFO group."""

    does: str
    item: str
    lane: str

    @property
    def good(self) -> bool:
        return self.does not in {"poison", "{"}


KINDS = ["count", "count", "count", "read", "check", "refuse", "sold", "flaky", "poison", "{"]
WHOLE = [
    refused("ThrottlingException"),
    refused("AccessDeniedException"),
    refused("InternalServerError", status=500),
    never_sent(),
    answer_lost(),
]
NAMED = st.tuples(
    st.sampled_from(["TransactionConflict", "ThrottlingError"]),
    st.frozensets(st.integers(0, 19), min_size=1, max_size=3),
)
EVENTS = st.lists(
    st.builds(Event, st.sampled_from(KINDS), st.sampled_from("abcdef"), st.sampled_from("xyz")),
    min_size=1,
    max_size=12,
)
STORMS = st.tuples(
    st.lists(st.none() | st.sampled_from(WHOLE) | NAMED, max_size=8),
    st.lists(st.none() | st.just(never_sent()), max_size=4),
    st.lists(st.sampled_from([0, 0, 0, 9_000, 26_000]), max_size=20),
)
"""The faults of the next writes and look-ups, and the milliseconds of the next handlers.

The fault of a write may be a reason code, with the positions of the actions that cause it.
"""
Storm = tuple[list[Any], list[Fault | None], list[int]]


class Queue:
    """A warm function, and the messages that wait for it.

    Args:
        storm: the faults.
        fifo: whether redelivered messages keep their place, and block their FIFO group.
        settings: those of the function.

    Attributes:
        requests: the entries of every write.
        committed: the events in the order of their commits, as observed between writes.
    """

    def __init__(self, storm: Storm, *, fifo: bool = False, **settings: Any) -> None:
        self.consumer = consumer_of(self._handle)
        self.consumer.rejects(SoldOut)(lambda event, refusal, tx: count(Note("refused"), tx))
        more = {"max_receive_count": MAX_RECEIVES, **settings}
        self.aws = FakeAws(self.consumer, {"counters": "name"}, **more)
        self.requests: list[Entries] = []
        self.committed: list[str] = []
        self._fifo = fifo
        self._writes, self._reads, self._delays = map(list[Any], storm)
        self._tried: set[str] = set()
        self._context = FakeContext()

    def work_off(self, events: Sequence[Event], order: Sequence[int], size: int) -> None:
        """Deliver messages of these events, in this order, until none is reported any more."""
        waiting = [(f"m{number}", event) for number, event in enumerate(order)]
        receives: Counter[str] = Counter()
        client = self.aws.runtime.dynamodb
        handle, self.aws.time = self.consumer.bound_to(self.aws.runtime), NOW
        with faults(client, self._next), inject(client, READ, *self._reads):
            while waiting:
                batch = waiting[:size]
                receives.update(message_id for message_id, _ in batch)
                self._context.remaining_ms = 30_000
                self.aws.time += BETWEEN_DELIVERIES
                records = [self._record(m, events[e], e, receives[m]) for m, e in batch]
                failed = failures(handle({"Records": records}, self._context))
                assert set(failed) <= {message_id for message_id, _ in batch}
                again = [one for one in batch if one[0] in failed]
                waiting = again + waiting[size:] if self._fifo else waiting[size:] + again

        self._look()

    def _look(self) -> None:
        found = [item["pk"].rpartition("#")[2] for item in self.aws.items("dedup")]
        self.committed += [event for event in found if event not in self.committed]

    def _record(self, message_id: str, event: Event, number: int, receives: int) -> dict[str, Any]:
        group, name = event.lane if self._fifo else None, f"{event.does} {event.item}"
        more: Any = {"receive_count": receives, "group": group}
        sent = message(name, f"e{number}", message_id=message_id, **more)
        # Each delivery is recent; otherwise the age of the message would make it a last chance.
        sent["attributes"]["SentTimestamp"] = str(int((self.aws.time or 0) * 1000))
        return sent | ({"body": "{"} if event.does == "{" else {})

    def _next(self, entries: Entries) -> Fault | None:
        self._look()
        self.requests.append(entries)
        fault = self._writes.pop(0) if self._writes else None
        if not isinstance(fault, tuple):
            return fault
        code, positions = fault
        failing = {position % len(entries) for position in positions}
        return cancelled(*(code if i in failing else "None" for i in range(len(entries))))

    def _handle(self, event: Note, tx: Transaction) -> None:
        self._context.remaining_ms -= self._delays.pop(0) if self._delays else 0
        does, item = event.name.split()
        match does:
            case "poison" | "refuse" | "sold":
                handle(event, tx)
            case "flaky" if tx.event.id not in self._tried:
                self._tried.add(tx.event.id)
                raise ValueError
            case "read":
                seen = tx.get(COUNTERS, {"name": item}) or {"amount": 0}
                tx.put(COUNTERS, {"name": item, "amount": seen["amount"] + 1})
            case "check":
                tx.check(COUNTERS, {"name": "closed"}, condition="attribute_not_exists(amount)")
                count(Note(item), tx)
            case _:
                count(Note(item), tx)


def expected(events: Sequence[Event], sent: Sequence[int]) -> dict[str, int]:
    """The amounts of all items, when each good event that was sent has counted once."""
    good = [events[number] for number in set(sent) if events[number].good]
    return Counter("refused" if e.does in {"refuse", "sold"} else e.item for e in good)


SIZES = st.sampled_from([1, 2, 3, 10])


@settings(quick, max_examples=20)
@given(st.data(), EVENTS, STORMS, SIZES, st.integers(1, 14))
def test_every_good_event_counts_once_and_only_poison_is_dead_lettered(
    data: st.DataObject, events: list[Event], storm: Storm, group_size: int, batch: int
) -> None:
    numbers = st.integers(0, len(events) - 1)
    order = data.draw(st.permutations([*range(len(events)), *data.draw(st.lists(numbers))]))
    BackendDict.reset()
    with (queue := Queue(storm, group_size=group_size)).aws as aws:
        queue.work_off(events, order, batch)
        assert all(len(set(items(entries))) == len(entries) for entries in queue.requests)
        assert amounts(aws) == expected(events, order)
        dead = [facts(letter)["lineage"] for letter in aws.dead_letters()]
        assert sorted(dead) == sorted(f"m{n}" for n, e in enumerate(order) if not events[e].good)


@settings(quick, max_examples=20)
@given(EVENTS, STORMS, SIZES, st.integers(1, 14))
def test_fifo_groups_commit_in_their_order(
    events: list[Event], storm: Storm, group_size: int, batch: int
) -> None:
    BackendDict.reset()
    with (queue := Queue(storm, fifo=True, group_size=group_size)).aws as aws:
        queue.work_off(events, range(len(events)), batch)
        assert amounts(aws) == expected(events, range(len(events)))
    lanes = {f"e{number}": event.lane for number, event in enumerate(events)}
    for entries in queue.requests:
        together = [lanes[event] for event in ids_in(entries)]
        assert len(set(together)) == len(together)
    for lane in "xyz":
        of_lane = [int(event[1:]) for event in queue.committed if lanes[event] == lane]
        assert of_lane == sorted(of_lane)
    assert len(queue.committed) == sum(event.good for event in events)
