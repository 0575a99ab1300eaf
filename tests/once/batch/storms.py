"""A queue, worked on until it is empty in a storm of faults: for the tests of whole batches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from once.errors import PermanentError
from once.handlers.transaction import Transaction
from once.testing import (
    FakeAws,
    FakeContext,
    Fault,
    answer_lost,
    cancelled,
    inject,
    never_sent,
    refused,
)
from tests.once.batch.grouping import READ, Entries, faults, message
from tests.once.effects.provider import NOW
from tests.once.support import COUNTERS, Note, SoldOut, consumer_of, count, failures

LATER = 3600
"""Between two deliveries, in seconds: as long as the breaker keeps anything waiting."""
ENOUGH = 60
"""Receives of one message, and more than any storm here lasts."""


@dataclass(frozen=True)
class Event:
    """What a handler does, and to which item; `lane` is its message group."""

    does: str
    item: str
    lane: str

    @property
    def good(self) -> bool:
        return self.does not in {"poison", "{"}


@dataclass(frozen=True)
class Storm:
    """What the next calls meet: writes, reads of records, and handlers in milliseconds.

    A write may meet a code, and the positions of the actions that are to blame.
    """

    writes: Sequence[Fault | tuple[str, frozenset[int]] | None]
    reads: Sequence[Fault | None]
    delays: Sequence[int]


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
STORMS = st.builds(
    Storm,
    writes=st.lists(st.none() | st.sampled_from(WHOLE) | NAMED, max_size=8),
    reads=st.lists(st.none() | st.just(never_sent()), max_size=4),
    delays=st.lists(st.sampled_from([0, 0, 0, 9_000, 26_000]), max_size=20),
)


class Queue:
    """A function that stays warm, and the messages that wait for it.

    Args:
        fifo: whether what comes again keeps its place, and holds its message group back.
        settings: those of the function.

    Attributes:
        requests: the entries of every write.
        committed: the events in the order in which they were committed, as seen between writes.
    """

    def __init__(self, storm: Storm, *, fifo: bool = False, **settings: Any) -> None:
        self.consumer = consumer_of(self._handle)
        self.consumer.rejects(SoldOut)(self._refuse)
        self.aws = FakeAws(
            self.consumer, {"counters": "name"}, max_receive_count=ENOUGH, **settings
        )
        self.requests: list[Entries] = []
        self.committed: list[str] = []
        self._fifo = fifo
        self._storm = storm
        self._writes, self._delays = list(storm.writes), list(storm.delays)
        self._tried: set[str] = set()
        self._context = FakeContext()

    def work_off(self, events: Sequence[Event], order: Sequence[int], size: int) -> None:
        """Deliver messages of these events, in this order, until none comes again."""
        waiting = [(f"m{number}", event) for number, event in enumerate(order)]
        receives: Counter[str] = Counter()
        client = self.aws.runtime.dynamodb
        handle, self.aws.time = self.consumer.bound_to(self.aws.runtime), NOW
        with faults(client, self._next), inject(client, READ, *self._storm.reads):
            while waiting:
                batch = waiting[:size]
                receives.update(message_id for message_id, _ in batch)
                self._context.remaining_ms, self.aws.time = 30_000, self.aws.time + LATER
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
        more: Any = {"receive_count": receives, "group": event.lane if self._fifo else None}
        name = f"{event.does} {event.item}"
        sent = message(name, f"e{number}", message_id=message_id, **more)
        # A message is young whenever it is delivered, or it would have its last chance some day.
        sent["attributes"]["SentTimestamp"] = str(int((self.aws.time or 0) * 1000))
        return sent | ({"body": "{"} if event.does == "{" else {})

    def _next(self, entries: Entries) -> Fault | None:
        self._look()
        self.requests.append(entries)
        fault = self._writes.pop(0) if self._writes else None
        if not isinstance(fault, tuple):
            return fault
        reasons = ["None"] * len(entries)
        for position in fault[1]:
            reasons[position % len(entries)] = fault[0]
        return cancelled(*reasons)

    def _handle(self, event: Note, tx: Transaction) -> None:
        self._context.remaining_ms -= self._delays.pop(0) if self._delays else 0
        does, item = event.name.split()
        match does:
            case "poison":
                raise PermanentError
            case "refuse":
                raise SoldOut
            case "flaky" if tx.event.id not in self._tried:
                self._tried.add(tx.event.id)
                raise ValueError
            case "sold":
                unmet: Any = {"condition": "attribute_exists(amount)", "otherwise": SoldOut()}
                tx.put(COUNTERS, {"name": "nothing"}, **unmet)
            case "read":
                seen = tx.get(COUNTERS, {"name": item}) or {"amount": 0}
                tx.put(COUNTERS, {"name": item, "amount": seen["amount"] + 1})
            case "check":
                tx.check(COUNTERS, {"name": "closed"}, condition="attribute_not_exists(amount)")
                count(Note(item), tx)
            case _:
                count(Note(item), tx)

    def _refuse(self, event: Note, refusal: SoldOut, tx: Transaction) -> None:
        count(Note("refused"), tx)


def expected(events: Sequence[Event], sent: Sequence[int]) -> dict[str, int]:
    """The amounts of all items, when each good event that was sent has counted once."""
    good = [events[number] for number in set(sent) if events[number].good]
    return Counter("refused" if e.does in {"refuse", "sold"} else e.item for e in good)
