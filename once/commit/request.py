"""Commit request: a transaction's dedup record and actions, as they are sent to DynamoDB."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from once.commit._dedup_store import DedupStore, dedup_store
from once.commit.item_size import entry_sizes, item_bytes
from once.errors import TooLarge
from once.handlers.actions import Action, ItemKey
from once.handlers.transaction import Transaction
from once.schema import Limits
from once.settings import Settings


@dataclass(frozen=True, slots=True, eq=False)
class CommitRequest:
    """The entries of one transaction, which commit its actions and its dedup record.

    Attributes:
        transaction: the transaction, which must not change any more.
        actions: the transaction's actions, by the key of their item.
        entries: the entries, as the transaction's `DedupStore` sends them.
        size: size of the entries in bytes, as far as it is known.
        store: the consumer's store of dedup records.
        made_at: the time that the request's conditions use, in seconds since the epoch.
    """

    transaction: Transaction
    actions: Mapping[ItemKey, Action]
    entries: list[Any]
    size: int
    store: DedupStore
    made_at: float

    @classmethod
    def of(cls, transaction: Transaction, settings: Settings, now: float) -> Self:
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
        actions = transaction.actions()
        store = dedup_store(settings)
        entries = store.entries(transaction, actions, now)
        size = sum(_sizes(entries, settings.dedup_table))
        if size > Limits.TRANSACTION_BYTES:
            raise TooLarge(
                f"the transaction has {size} bytes, items and values together; "
                f"DynamoDB takes {Limits.TRANSACTION_BYTES}"
            )
        return cls(transaction, actions, store.encoded(entries), size, store, now)


def _sizes(entries: Sequence[Mapping[str, Any]], dedup_table: str) -> Iterator[int]:
    for entry, size in zip(entries, entry_sizes(entries), strict=True):
        if size > Limits.ITEM_BYTES and "Put" in entry:
            _check_item(entry["Put"], dedup_table)
        yield size


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
