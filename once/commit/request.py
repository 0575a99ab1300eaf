"""Commit request: a transaction's dedup record and actions, as they are sent to DynamoDB."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from once.commit._record_store import RecordStore
from once.commit.item_size import entry_sizes, item_bytes
from once.commit.request_encoding import encoded
from once.errors import TooLarge
from once.schema import Limits
from once.settings import CommitSettings, Dedup
from once.transaction import Action, ItemKey, Transaction

if TYPE_CHECKING:
    from once.commit._dedup_store import DedupStore


class CommitRequest(Struct, frozen=True, eq=False):
    """The entries of one transaction, which commit its actions and its dedup record.

    Attributes:
        transaction: the transaction, which must not change any more.
        actions: the transaction's actions and the writes of sequence items, by the key of their
            item.
        entries: the entries as JSON, or a single one for a plain write.
        size: size of the entries in bytes, as far as it is known, or an upper bound of it.
        store: the consumer's store of dedup records.
        made_at: the time that the request's conditions use, in seconds since the epoch.
    """

    transaction: Transaction
    actions: Mapping[ItemKey, Action]
    entries: Sequence[Any]
    size: int
    store: "DedupStore"
    made_at: float

    @classmethod
    def of(cls, transaction: Transaction, settings: CommitSettings, now: float) -> Self:
        """Return the request that commits a transaction.

        Args:
            transaction: the transaction.
            settings: name the table of dedup records, and how long keys are remembered.
            now: the time, in seconds since the epoch.

        Raises:
            InvalidWrite: DynamoDB has no type for a value, no consumer could read an event, or the
                writes do not fit the consumer's `Dedup`.
            TooLarge: this transaction alone is over DynamoDB's limits.
        """
        store = dedup_store(settings)
        actions, entries = store.prepared(transaction, now)
        _check_number(len(actions))
        bodies = encoded(entries)
        # Each name and each value is longer as JSON than in DynamoDB, so most need no count.
        size = sum(map(len, bodies))
        if size > Limits.ITEM_BYTES:
            size = _counted(entries, settings.dedup_table)
        sent = bodies if store.plain_write is None else entries
        return cls(transaction, actions, sent, size, store, now)


def dedup_store(settings: CommitSettings) -> "DedupStore":
    """Return the store that a consumer's settings name."""
    if settings.dedup is Dedup.RECORD:
        return RecordStore(settings)
    # Loaded late: few consumers use it, and each module costs time at a cold start.
    from once.commit._item_store import ItemStore

    return ItemStore(settings)


def _check_number(actions: int) -> None:
    if actions >= Limits.TRANSACTION_ACTIONS:
        raise TooLarge(
            f"{actions} actions and the dedup record: DynamoDB takes "
            f"{Limits.TRANSACTION_ACTIONS}; each item written, checked or read counts as one, and "
            "so does each message group of ordered events"
        )


def _counted(entries: Sequence[Mapping[str, Any]], dedup_table: str) -> int:
    """Return the size of the entries in bytes, within DynamoDB's limits."""
    sizes = entry_sizes(entries)
    for entry, size in zip(entries, sizes, strict=True):
        if size > Limits.ITEM_BYTES and "Put" in entry:
            _check_item(entry["Put"], dedup_table)
    if (total := sum(sizes)) > Limits.TRANSACTION_BYTES:
        raise TooLarge(
            f"the transaction has {total} bytes, items and values together; "
            f"DynamoDB takes {Limits.TRANSACTION_BYTES}"
        )
    return total


def _check_item(put: Mapping[str, Any], dedup_table: str) -> None:
    if (size := item_bytes(put["Item"])) <= Limits.ITEM_BYTES:
        return
    if put["TableName"] == dedup_table:
        raise TooLarge(
            f"the dedup record has {size} bytes, and DynamoDB takes {Limits.ITEM_BYTES}: publish "
            "less, or publish where the data can be read instead of the data"
        )
    raise TooLarge(
        f"an item for {put['TableName']} has {size} bytes, names and values together; "
        f"DynamoDB takes {Limits.ITEM_BYTES}"
    )
