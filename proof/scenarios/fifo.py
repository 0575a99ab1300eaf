"""FIFO: `ledger` appends numbers to accounts and publishes them, and `mirror` repeats that.

Each account has a list of the numbers in the order in which they were committed.
"""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import Struct

from once.business_tables import Table
from once.cdk import ConsumerProps, TableProps
from once.consumer import Consumer
from once.errors import PermanentError
from once.names import Reason
from once.transaction import Transaction
from proof.ledger import Scenario, Told, check, event_of
from proof.service import ORDERED_INGRESS, Violation
from proof.world.tasks import START

POSTED, BOOKED = "entry.posted", "entry.booked"
_TABLES = {"ledger": "booked", "mirror": "mirrored"}
_FAILING = 0.1
_CORRECTED_AFTER_SECONDS = 900


class Entry(Struct, frozen=True):
    """An entry of an account.

    Attributes:
        number: its place in the order in which all entries are sent.
        fails: whether it fails permanently, until the handler is corrected.
        fatal: whether no function survives reading its event.
    """

    number: int
    account: str = "a"
    fails: bool = False
    fatal: bool = False

    @property
    def body(self) -> str:
        """Its event."""
        event = {"specversion": "1.0", "id": f"entry-{self.number}", "source": "/bank"}
        data = {"account": self.account, "number": self.number}
        return json.dumps({**event, "type": POSTED, "data": data})


class Data(Struct, frozen=True):
    """The data of every event."""

    account: str
    number: int


ledger, mirror = Consumer("ledger"), Consumer("mirror")
_BOOKED, _MIRRORED = ledger.table("booked"), mirror.table("mirrored")


failing: set[int] = set()
"""The numbers that `ledger` cannot process at present, as before the deployment of a correction."""


class Failing(PermanentError):
    """The number is among `failing`."""


@ledger.handles(POSTED, Data)
def book(entry: Data, tx: Transaction) -> None:
    """Append the number, and publish it."""
    if entry.number in failing:
        raise Failing(f"{entry.number} cannot be processed yet")
    _append(_BOOKED, entry, tx)
    tx.publish(BOOKED, entry)


@mirror.handles(BOOKED, Data)
def repeat(entry: Data, tx: Transaction) -> None:
    """Append the number."""
    _append(_MIRRORED, entry, tx)


def _append(table: Table[Any], entry: Data, tx: Transaction) -> None:
    key = {"account": entry.account}
    numbers = (tx.get(table, key) or {"numbers": []})["numbers"]
    tx.put(table, {**key, "numbers": [*numbers, entry.number]})


_LEDGER = ConsumerProps(
    "ledger",
    external=(POSTED,),
    publishes=(BOOKED,),
    tables=(TableProps("booked", "account"),),
    fifo=True,
    ordered_by="account",
)
_MIRROR = ConsumerProps(
    "mirror",
    events=(BOOKED,),
    tables=(TableProps("mirrored", "account"),),
    fifo=True,
    ordered_by="account",
)


class Fifo(Scenario):
    """Entries in order. The stream has two shards, as after a split on AWS.

    An entry that was dead-lettered may come later than its successors, unless its group is blocked.
    """

    part = Entry
    shards = 2
    loses_records = False
    blocks_group = False

    @classmethod
    def draw(cls, seed: int) -> tuple[Any, ...]:
        """Return random entries of one or two accounts."""
        draw = random.Random(f"entries {seed}")
        accounts = [draw.choice("aab") for _ in range(draw.randint(2, 6))]
        return tuple(Entry(n, one, draw.random() < _FAILING) for n, one in enumerate(accounts))

    def consumers(self) -> Mapping[ConsumerProps, Consumer]:
        """Return both consumers."""
        blocks = self.blocks_group
        return {
            replace(_LEDGER, blocks_group=blocks): ledger,
            replace(_MIRROR, blocks_group=blocks): mirror,
        }

    def begin(self) -> None:
        """Send all entries in their order, within two minutes."""
        # Often several commits of a group are in the stream before the relay reads it.
        self.relays_from = START + self.world.random.choice([0, 0, 70])
        failing.clear()
        failing.update(entry.number for entry in self.traffic if entry.fails)
        self.world.fatal |= {entry.body for entry in self.traffic if entry.fatal}
        if not self.at_once:
            self.world.tasks.at(self.relays_from, lambda: None)
            self.world.tasks.at(START + _CORRECTED_AFTER_SECONDS, failing.clear)
        at = START
        for entry in self.traffic:
            send = partial(self._send, entry, f"first-{entry.number}")
            at += self.world.random.choice([0, 0.01, 1, 20])
            if self.at_once:
                send()
            else:
                self.world.tasks.at(at, send)

    def send_again(self, part: Any) -> None:
        """Send an entry, long after SQS and SNS have forgotten it."""
        self._send(part, f"again-{part.number}")

    def _send(self, entry: Entry, name: str) -> None:
        order = {"MessageGroupId": entry.account, "MessageDeduplicationId": name}
        self.publish(entry.body, ORDERED_INGRESS, order)

    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether an entry's number is in its account."""
        data = event_of(body)["data"]
        return data["number"] in self._numbers(consumer).get(data["account"], ())

    def subject_of(self, body: str) -> Any:
        """Return the number of an entry."""
        return event_of(body)["data"]["number"]

    def owed(self) -> set[Told]:
        """Return an event for each entry that was booked."""
        return {(BOOKED, number) for each in self._numbers("ledger").values() for number in each}

    def check_state(self) -> None:
        """Check that no number comes twice, and none before an earlier one. Raises Violation."""
        for place in self.service.places.values():
            for dead_letter in place.dead_letters.ever:
                is_fatal = dead_letter.body in self.world.fatal
                if dead_letter.reason in ("", Reason.NOT_TRIED) and not is_fatal:
                    raise Violation(
                        "dead-lettered untried", f"{dead_letter.body}: {dead_letter.reason!r}"
                    )
        sent = [entry.number for entry in self.traffic]
        mirrored = self._numbers("mirror")
        for account, numbers in self._numbers("ledger").items():
            self._check_order("ledger", sent, numbers)
            self._check_order("mirror", numbers, mirrored.get(account, []))

    def _check_order(self, consumer: str, before: Sequence[int], after: Sequence[int]) -> None:
        check("doubled", [number for number, count in Counter(after).items() if count > 1])
        dead_letters = () if self.blocks_group else self.service.places[consumer].dead_letters.ever
        late = {self.subject_of(dead_letter.body) for dead_letter in dead_letters}
        places = [before.index(number) for number in after if number not in late]
        if places != sorted(places):
            raise Violation("out of order", f"{consumer}: {after} after {before}")

    def _numbers(self, consumer: str) -> dict[str, list[int]]:
        rows = self.rows(_TABLES[consumer]).items()
        return {account: [int(number) for number in row["numbers"]] for account, row in rows}


class BlockingFifo(Fifo):
    """Entries of which a failed one holds up its group."""

    blocks_group = True
