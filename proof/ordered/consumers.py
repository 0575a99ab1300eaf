"""The consumers: `ledger` appends numbers to accounts and publishes them, `mirror` repeats that.

Each account has a list of the numbers in the order in which they were committed.
"""

from collections.abc import Mapping

from msgspec import Struct

from once.cdk import ConsumerProps, TableProps
from once.consumer import Consumer
from once.errors import PermanentError
from once.transaction import Table, Transaction

POSTED, BOOKED = "entry.posted", "entry.booked"
_TABLES = (TableProps("booked", "account"), TableProps("mirrored", "account"))


class Entry(Struct, frozen=True):
    """The data of every event."""

    account: str
    number: int


ledger, mirror = Consumer("ledger"), Consumer("mirror")
_BOOKED, _MIRRORED = ledger.table("booked"), mirror.table("mirrored")


failing: set[int] = set()
"""The numbers that `ledger` cannot process at present, as before the deployment of a correction."""


class Failing(PermanentError):
    """The number is among `failing`."""


@ledger.handles(POSTED, Entry)
def book(entry: Entry, tx: Transaction) -> None:
    """Append the number, and publish it."""
    if entry.number in failing:
        raise Failing(f"{entry.number} cannot be processed yet")
    _append(_BOOKED, entry, tx)
    tx.publish(BOOKED, entry)


@mirror.handles(BOOKED, Entry)
def repeat(entry: Entry, tx: Transaction) -> None:
    """Append the number."""
    _append(_MIRRORED, entry, tx)


def _append(table: Table, entry: Entry, tx: Transaction) -> None:
    key = {"account": entry.account}
    numbers = (tx.get(table, key) or {"numbers": []})["numbers"]
    tx.put(table, {**key, "numbers": [*numbers, entry.number]})


CONSUMERS: Mapping[str, Consumer] = {"ledger": ledger, "mirror": mirror}


def registry(*, blocks_group: bool) -> tuple[ConsumerProps, ...]:
    """Return the lines of both consumers."""
    return (
        ConsumerProps(
            "ledger",
            external=(POSTED,),
            publishes=(BOOKED,),
            tables=_TABLES[:1],
            fifo=True,
            ordered_by="account",
            blocks_group=blocks_group,
        ),
        ConsumerProps(
            "mirror",
            events=(BOOKED,),
            tables=_TABLES[1:],
            fifo=True,
            ordered_by="account",
            blocks_group=blocks_group,
        ),
    )
