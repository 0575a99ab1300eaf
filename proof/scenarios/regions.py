"""Entries of accounts in two Regions, of which one is lost.

Each event adds one to an attribute of its own, so that every version of an item says how often an
event was applied on the way to it. With records of their own, an entry changes two items and
publishes an event, which a second consumer adds up. With item dedup it changes one item.

The clauses are the rows of docs/regions.md: what may be lost or doubled has to be *exposed*, and is
counted; anything else is a violation.
"""

import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from msgspec import Struct

from functions.payments.handler import consumer as payments
from once import Consumer, Key, Transaction
from once.cdk import ConsumerProps, TableProps
from once.events.identity import commit_prefix
from once.names import COMMIT_ATTRIBUTE, Record, State
from once.settings import Dedup
from proof.ledger import Scenario, check, event_of
from proof.scenarios.effects import LINES, PUBLISHER, Effect
from proof.service import DEDUP, Service, Violation
from proof.world.expressions import Item
from proof.world.faults import Plan
from proof.world.regions import Region, StrongRegion, Version
from proof.world.tasks import Process
from proof.world.world import World

KINDS = ("opened", "credited", "renamed", "closed")
TORN = True
"""Whether the items of a transaction may arrive separately: what is believed of record dedup."""
COUNTED = (
    *("runs", "changes", "missing", "missing for good", "doubled", "told"),
    "written before the fence",
)
"""Figures of each row: changes that an entry owes to an item, those that are missing at
rest and after everything was sent again, those that were made twice, how many of both a comparison
at the takeover had told, and writes of a Region that had come back and did not know yet that
another one had taken over."""
_ACCOUNTS, _BANK, _MIRRORED, _PAYMENTS = "accounts", "bank", "mirrored", "payments"

Place = tuple[str, str]
"""A table and a key."""


class Entry(Struct, frozen=True):
    """The data of every event here."""

    entry: str
    account: str


class Booked(Struct, frozen=True):
    """The data of the published event."""

    entry: str
    account: str


alone, recorded, mirror = Consumer(_ACCOUNTS), Consumer(_ACCOUNTS), Consumer("mirror")
inventory = Consumer(PUBLISHER.name)
_ON_ITEM, _ACCOUNT = alone.table(_ACCOUNTS), recorded.table(_ACCOUNTS)
_TOTAL, _MIRROR = recorded.table(_BANK), mirror.table(_MIRRORED)


def _change(event: Entry, tx: Transaction) -> None:
    """Write one item, which is the event's own."""
    tx.update(_ON_ITEM, {"account": event.account}, add={event.entry: 1})


def _book(event: Entry, tx: Transaction) -> None:
    """Write two items, and publish."""
    tx.update(_ACCOUNT, {"account": event.account}, add={event.entry: 1})
    tx.update(_TOTAL, {"bank": "all"}, add={event.entry: 1})
    tx.publish("booked", Booked(event.entry, event.account))


for _kind in KINDS:
    alone.handles(_kind, Entry, key=Key.field("account"))(_change)
    recorded.handles(_kind, Entry, key=Key.field("entry"))(_book)


@mirror.handles("booked", Booked, key=Key.field("entry"))
def count(event: Booked, tx: Transaction) -> None:
    """Add up what was published."""
    tx.update(_MIRROR, {"account": event.account}, add={event.entry: 1})


class Loss(Struct, frozen=True, tag=True):
    """The loss of Region A.

    Attributes:
        kind: `drained` before B takes over; `pulled` without a warning, for good; `returns`.
        tables: one Region, or a global table with eventual or with strong consistency.
        on_items: whether the dedup records are on the items.
        after: when it is lost, in seconds.
        takeover: how long afterwards B takes over.
        gone: how long afterwards A is back.
        fence: how long it takes A to learn that it may not write.
    """

    kind: Literal["drained", "pulled", "returns"] = "returns"
    tables: Literal["one", "MREC", "MRSC"] = "MREC"
    on_items: bool = False
    after: float = 0.1
    takeover: float = 10
    gone: float = 600
    fence: float = 1

    @property
    def row(self) -> str:
        """The row of the table of truth."""
        return f"{self.tables}, {'item' if self.on_items else 'record'}, {self.kind}"


class Account(Struct, frozen=True, tag=True):
    """An account with an entry of each kind.

    Attributes:
        sent: of the entries that A has: `once`, so that they wait in its queue; `again` to B when
            it takes over; `unless accepted`, as a provider does that A has not answered.
        copies: number of messages with each event.
        later: how many of its entries are sent after the loss, and to B only.
    """

    name: str
    sent: Literal["once", "again", "unless accepted"] = "again"
    copies: int = 1
    later: int = 0

    @property
    def entries(self) -> list[str]:
        """The names of its entries."""
        return [f"{kind}_{self.name}" for kind in KINDS]

    @property
    def charge(self) -> Effect:
        """A charge, of the account's order."""
        return Effect(int(self.name[1:]))

    @property
    def bodies(self) -> list[str]:
        """The event of each entry."""
        return [
            json.dumps(
                {
                    "specversion": "1.0",
                    "id": entry,
                    "source": "/bank",
                    "type": entry.partition("_")[0],
                    "data": {"entry": entry, "account": self.name},
                }
            )
            for entry in self.entries
        ]


class RegionalService(Service):
    """The service in one Region, whose name its processes have."""

    world: Region

    def start(self, name: str, function: str, seconds: float, work: Any) -> Process:
        """Start a process."""
        return super().start(name, f"{self.world.name}:{function}", seconds, work)


class Half(Scenario):
    """The service in one Region.

    Attributes:
        known: consumer and entry of every record that it ever had, with the place of the record.
    """

    part: Any = Loss | Account
    loses_records = False
    world: Region

    def __init__(self, traffic: tuple[Any, ...], plan: Plan, seed: int) -> None:
        self.loss = next((part for part in traffic if isinstance(part, Loss)), Loss())
        super().__init__(
            traffic, plan, seed, StrongRegion if self.loss.tables == "MRSC" else Region
        )
        self.accounts = [part for part in traffic if isinstance(part, Account)]
        self.known: dict[Place, Place] = {}
        self._read = 0
        self._unchecked: list[Version] = []

    def consumers(self) -> Mapping[ConsumerProps, Consumer]:
        """Return the lines."""
        items, mirrored = TableProps(_ACCOUNTS, "account"), TableProps(_MIRRORED, "account")
        accounts = ConsumerProps(_ACCOUNTS, external=KINDS, tables=(items,))
        if self.loss.on_items:
            size = 1 if self.loss.tables == "MRSC" else 10
            return {replace(accounts, dedup=Dedup.ITEM, group_size=size): alone}
        tables = (items, TableProps(_BANK, "bank"))
        books = ConsumerProps("mirror", events=("booked",), tables=(mirrored,))
        books_of = replace(accounts, tables=tables, publishes=("booked",))
        return {books_of: recorded, books: mirror, PUBLISHER: inventory, LINES[_PAYMENTS]: payments}

    def deployed(self, plan: Plan, seed: int, world: type[World]) -> Service:
        """Return the service."""
        return RegionalService(plan, seed, self.consumers(), world)

    @classmethod
    def draw(cls, seed: int) -> tuple[Any, ...]:
        """Return a loss, and one to three accounts."""
        draw = random.Random(f"regions {seed}")
        tables: Any = draw.choice(["MREC", "MREC", "MREC", "MRSC", "one"])
        kind: Any = draw.choice(["drained", "pulled", "returns", "returns"])
        loss = Loss(
            "returns" if tables == "one" else kind,
            tables,
            tables == "MRSC" or draw.random() < 0.5,
            after=draw.choice([0.05, 0.1, 0.3, 2.0, 45.0]) * (0.5 + draw.random()),
            takeover=draw.choice([0.0, 10.0, 300.0]),
            gone=draw.choice([1.0, 60.0, 6 * 60 * 60.0]),
            fence=draw.choice([0.0, 0.2, 5.0]),
        )
        accounts = [
            Account(
                f"a{number}",
                draw.choice(["once", "again", "again", "unless accepted"]),
                draw.choice([1, 1, 2]),
                draw.choice([0, 1, 2]),
            )
            for number in range(draw.choice([1, 2, 3]))
        ]
        return (loss, *accounts)

    def begin(self) -> None:
        """Send what is sent before the loss."""
        for account in self.accounts:
            for body in account.bodies[account.later :] * account.copies:
                self.soon(partial(self.publish, body))
            for _ in range(account.copies):
                self.soon(partial(self.request_charge, account))

    def request_charge(self, account: Account) -> None:
        """Request the charge of an account, unless its records are on items."""
        if not self.loss.on_items:
            self.enqueue(_PAYMENTS, account.charge.body)

    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether this Region ever had the record of an event."""
        self._read_versions()
        return (consumer, self.subject_of(body)) in self.known

    def subject_of(self, body: str) -> Any:
        """Return an event's entry, or the order of a charge."""
        data = event_of(body)["data"]
        return data.get("entry") or data["order_id"]

    def new_versions(self) -> list[Version]:
        """Return the versions that are new since the last call."""
        self._read_versions()
        new, self._unchecked = self._unchecked, []
        return new

    def _read_versions(self) -> None:
        new = self.world.tables.history[self._read :]
        self._read += len(new)
        self._unchecked += new
        for version in new:
            found = self.records_in(version.place, version.item)
            self.known |= dict.fromkeys(found, version.place)

    def records_in(self, place: Place, item: Item) -> Iterator[tuple[str, str]]:
        """Yield the consumer and the entry of each dedup record in an item."""
        table, key = place
        if table == DEDUP and item.get(Record.STATE) == {"S": State.DONE}:
            yield key.partition("#")[0], key.rpartition(":")[2]
        for name in item if self.loss.on_items else ():
            if name.startswith("once#"):
                yield _ACCOUNTS, f"{name.rpartition('#')[2]}_{key}"


class Regions(Half):
    """The service in two Regions. This one is lost, and the other is its `standby`.

    Attributes:
        exposed: what was written here and had not arrived when this Region was lost, and what was
            written here between its return and its fence.
        fenced_from: the time from which nothing may be written here.
        sent: the entries that the Region in charge was given.
        counted: what was lost, doubled or written before the fence, by the row of docs/regions.md.
    """

    def __init__(self, traffic: tuple[Any, ...], plan: Plan, seed: int) -> None:
        super().__init__(traffic, plan, seed)
        self.standby = Half(traffic, plan, seed)
        self.standby.world.join(self.world)
        self.standby.relays_from = self.fenced_from = math.inf
        self.exposed: set[Place] = set()
        self.sent: set[str] = set()
        self.counted: Counter[tuple[str, str]] = Counter()
        self._told: set[Place] = set()
        self._records: dict[Place, set[Place]] = {}

    def lose(self) -> None:
        """Let nothing run here: what has not arrived in the other Region is exposed."""
        self.world.is_up = False
        if self.loss.tables != "one":
            self.exposed |= {each.place for each in self.standby.world.tables.arriving}

    def take_over(self) -> None:
        """Begin in the other Region, with what its senders send."""
        other = self.standby
        other.relays_from = self.world.tasks.now
        if self.loss.kind == "drained":
            self.stop()
        self._told = self._compared()
        for account in self.accounts:
            for number, body in enumerate(account.bodies):
                is_accepted = self.has_effect(_ACCOUNTS, body)
                is_again = account.sent == "again" or (
                    account.sent == "unless accepted" and not is_accepted
                )
                if number < account.later or is_again:
                    self.sent.add(self.subject_of(body))
                    other.soon(partial(other.publish, body))
            if account.sent != "once":
                other.soon(partial(other.request_charge, account))

    def _compared(self) -> set[Place]:
        """Return consumer and entry where `once region reconcile` finds a record or an item alone.

        It is given every event that this Region has committed.
        """
        tables = self.standby.world.tables.items
        every = self.world.tables.items[DEDUP].keys() | tables[DEDUP].keys()
        written = {
            item[COMMIT_ATTRIBUTE]["S"][:16]
            for table in tables.keys() - {DEDUP}
            for item in tables[table].values()
        }
        alone = [pk for pk in every if (pk in tables[DEDUP]) != (commit_prefix(pk) in written)]
        return {(pk.partition("#")[0], pk.rpartition(":")[2]) for pk in alone}

    def stop(self) -> None:
        """Disable the mapping of the relay, which would publish what the other Region commits."""
        self.relays_from = math.inf

    def come_back(self) -> None:
        """Let this Region go on, until it learns that it may not write."""
        self.world.is_up = True
        if self.loss.tables == "MREC":
            self.fenced_from = self.world.fenced_at = self.world.tasks.now + self.loss.fence

    def fail_back(self) -> None:
        """Begin here again, when the other Region is at rest."""
        self.fenced_from = self.world.fenced_at = self.standby.relays_from = math.inf
        self.relays_from = self.world.tasks.now
        self.sent |= {
            entry for account in self.accounts for entry in account.entries[account.later :]
        }

    def check_versions(self) -> None:
        """Check each new version of an item. Raises Violation."""
        charged = self.world.provider.charged()
        check("charged twice", [order for order, number in charged.items() if number > 1])
        back = self.fenced_from - self.loss.fence
        # Strongly consistent tables have one history.
        for half in (self,) if self.loss.tables == "MRSC" else (self, self.standby):
            for version in half.new_versions():
                self._check_version(version)
                if half is self and version.region == "A" and version.written_at >= back:
                    if version.written_at >= self.fenced_from:
                        raise Violation("committed after the fence", str(version.place))
                    self.exposed.add(version.place)
                    self._count("written before the fence")

    def _check_version(self, version: Version) -> None:
        if not self.loss.on_items:
            return
        records, counts = {*self.records_in(version.place, version.item)}, _counts(version.item)
        check("applied twice", [entry for entry, number in counts.items() if number > 1])
        check("record or state alone", {entry for _, entry in records} ^ counts.keys())
        if self.loss.tables == "MRSC":
            check("lost", self._records.get(version.place, set()) - records)
            self._records[version.place] = records

    def check_end(self, *, repeated: bool) -> None:
        """Check the tables at rest, before or after everything was sent again. Raises Violation."""
        here = self if self.world.is_up else self.standby
        other, tables = here.world.other, here.world.tables.items
        if other.is_up and self.loss.tables == "MREC":
            check("Regions that differ", [t for t in tables if tables[t] != other.tables.items[t]])
        found = {
            record: (table, key)
            for table, rows in tables.items()
            for key, item in rows.items()
            for record in self.records_in((table, key), item)
        }
        wrong = [
            f"{consumer} {entry} {what}"
            for account in self.accounts
            for consumer, entry in self._owed(account)
            for what in self._faults(tables, found, (consumer, entry), account.name, repeated)
        ]
        orders = [] if self.loss.on_items else [a.charge.order for a in self.accounts]
        charged = self.world.provider.charged()
        check("not charged", [order for order in orders if repeated and not charged[order]])
        check("neither once nor exposed", wrong)
        if repeated:
            self._count("runs")

    def _owed(self, account: Account) -> Iterator[Place]:
        """Yield each consumer with each entry that it has to process."""
        for line in self.consumers():
            if line.name in (_ACCOUNTS, "mirror"):
                yield from ((line.name, entry) for entry in account.entries)
            elif line.name == _PAYMENTS:
                yield line.name, account.charge.order

    def _faults(
        self,
        tables: Mapping[str, Mapping[str, Item]],
        found: Mapping[Place, Place],
        record: Place,
        account: str,
        repeated: bool,
    ) -> Iterator[str]:
        """Yield what is wrong with an entry for a consumer, and count what may be."""
        consumer, entry = record
        is_torn = TORN and not self.loss.on_items
        if record not in found:
            is_owed = (_ACCOUNTS, entry) in found if consumer == "mirror" else entry in self.sent
            if is_owed or repeated:
                is_exposed = self.loss.on_items and (_ACCOUNTS, account) in self.exposed
                yield from self._judged("missing", is_exposed and not repeated)
            return
        for table, key in self._places(consumer, entry, account):
            item = tables[table].get(key, {})
            number = int(bool(item)) if table == _PAYMENTS else _counts(item).get(entry, 0)
            if repeated:
                self._count("changes")
            if number > 1 and repeated:
                is_exposed = is_torn and found[record] in self.exposed
                yield from self._judged("doubled", is_exposed, told=record in self._told)
            if number < 1:
                word, told = (
                    ("missing for good", record in self._told) if repeated else ("missing", False)
                )
                yield from self._judged(word, is_torn and (table, key) in self.exposed, told=told)

    def _places(self, consumer: str, entry: str, account: str) -> list[Place]:
        """Return the items that a consumer writes for an entry."""
        if consumer == _PAYMENTS:
            return [(_PAYMENTS, entry)]
        if consumer == "mirror":
            return [(_MIRRORED, account)]
        return [(_ACCOUNTS, account)] + [(_BANK, "all")] * (not self.loss.on_items)

    def _judged(self, what: str, may_be: bool, *, told: bool = False) -> Iterator[str]:
        if may_be:
            self._count(what)
            self.counted[self.loss.row, "told"] += told
        else:
            yield what

    def _count(self, what: str) -> None:
        self.counted[self.loss.row, what] += 1


def _counts(item: Item) -> dict[str, int]:
    """Return how often each entry was applied on the way to a version of an item."""
    return {
        name: int(value["N"])
        for name, value in item.items()
        if name.partition("_")[0] in KINDS and "N" in value
    }
