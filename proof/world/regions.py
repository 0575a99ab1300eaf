"""Two Regions: each is a world of its own, and DynamoDB replicates between their tables.

AWS documents how (docs/adr/0084-loss-of-a-region.md has the sources). Under eventual consistency
(MREC) each item is replicated by itself, in any order; the last writer wins by the time of its
write; a condition is evaluated on the Region's own version. Under strong consistency (MRSC) both
Regions have one version of each item, and transactions are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proof.world.calls import PROVIDER, Call, ServiceError
from proof.world.expressions import Item
from proof.world.faults import Action, Fault
from proof.world.tables import Tables
from proof.world.tasks import Pool, Tasks
from proof.world.world import World

_LAGS = (0.0, 0.0, 0.2, 2.0, 30.0)
_WRITES = {"TransactWriteItems", "PutItem", "UpdateItem"}
_TICK = 1e-6
"""Between two writes of one item in the same instant: the later one wins."""


@dataclass(frozen=True, slots=True)
class Version:
    """An item as one write left it.

    Attributes:
        written_at: the time that decides which writer is the last.
        region: the Region of the write.
        due_at: when the other Region may have it at the earliest.
    """

    table: str
    key: str
    item: Item
    written_at: float
    region: str
    due_at: float

    @property
    def place(self) -> tuple[str, str]:
        """The table and the key."""
        return self.table, self.key

    @property
    def order(self) -> tuple[float, str]:
        """The last writer has the greatest."""
        return self.written_at, self.region


class Replica(Tables):
    """The tables of one Region.

    Attributes:
        arriving: versions of the other Region that are on their way here.
        history: every version that this Region ever had, of its own and arrived, oldest first.
    """

    def __init__(self, region: "Region", keys: Mapping[str, str], streamed: str) -> None:
        super().__init__(keys, streamed, region.tasks.clock)
        self.arriving: list[Version] = []
        self.history: list[Version] = []
        self._region = region
        self._newest: dict[tuple[str, str], tuple[float, str]] = {}

    def deliver(self, version: Version) -> None:
        """Let a version arrive: it is dropped if this Region has a later one of the item."""
        self.arriving.remove(version)
        if version.order > self._newest.get(version.place, (0.0, "")):
            super()._store(version.table, version.key, version.item)
            self._keep(version)

    def _store(self, table: str, key: str, after: Item | None, *, by_ttl: bool = False) -> None:
        super()._store(table, key, after, by_ttl=by_ttl)
        if after is not None:
            region, now = self._region, self._region.tasks.now
            last, _ = self._newest.get((table, key), (0.0, ""))
            due = now + region.random.choice(_LAGS)
            version = Version(table, key, after, max(now, last + _TICK), region.name, due)
            self._keep(version)
            if (other := region.other.tables) is not self:
                other.arriving.append(version)

    def _keep(self, version: Version) -> None:
        self._newest[version.place] = version.order
        self.history.append(version)


class StrongReplica(Replica):
    """The tables of all Regions under strong consistency: no transactions."""

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute an operation on one item.

        Raises:
            ServiceError: the error response.
        """
        if operation == "TransactWriteItems":
            raise ServiceError("ValidationException")
        return super().answer(operation, request)


class Region(World):
    """One of two Regions. It shares the faults and the trace with the other, and no process.

    Attributes:
        name: of the Region.
        other: the other Region.
        is_up: whether anything runs here, and is replicated from or to here.
        fenced_at: the time from which its role may not write, as far as this Region knows.
    """

    tables: Replica
    other: "Region"
    replica: type[Replica] = Replica
    name = "A"
    is_up = True
    fenced_at = float("inf")

    def __init__(self, keys: Mapping[str, str], dedup: str, *more: Any) -> None:
        super().__init__(keys, dedup, *more)
        self.tables = self.replica(self, keys, dedup)

    def join(self, first: "Region") -> None:
        """Become the second of two Regions; the provider of payments is in neither."""
        self.name, self.log, self.provider = "B", first.log, first.provider
        self.other, first.other = first, self

    @property
    def is_fenced(self) -> bool:
        """Whether its role is denied every write."""
        return self.tasks.now >= self.fenced_at

    def respond(self, call: Call) -> Any:
        """Execute a call of either Region: the one that was opened last is asked."""
        return World.respond(self._running, call)

    def timers_of(self, call: Call) -> Tasks:
        """Return the timers of a late call: the provider goes on while the first Region is lost."""
        is_outside = call.service == PROVIDER and self.name == "A"
        return self.other.tasks if is_outside else self.tasks

    def pool(self) -> Pool:
        """Return a thread pool for the running task of either Region."""
        return Pool(self._running.tasks)

    def do(self, call: Call) -> Any:
        """Execute a call without a fault, if IAM allows it.

        Raises:
            ServiceError: the error response.
        """
        if call.operation in _WRITES and self.is_fenced:
            raise ServiceError("AccessDeniedException")
        return super().do(call)

    @property
    def _running(self) -> "Region":
        return self.other if self.other.tasks.current else self


class StrongRegion(Region):
    """One of two Regions with strong consistency."""

    replica = StrongReplica

    def join(self, first: Region) -> None:
        """Become the second of two Regions, with the tables of the first."""
        super().join(first)
        self.tables = first.tables

    def _with_fault(self, call: Call, action: Action) -> Any:
        if action.what == Fault.CONFLICT and call.service == "dynamodb":
            raise ServiceError("ReplicatedWriteConflictException")
        return super()._with_fault(call, action)
