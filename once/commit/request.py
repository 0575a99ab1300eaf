"""Commit request: a transaction's dedup record and actions, as they are sent to DynamoDB."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from msgspec import Raw, Struct

from once.commit._sequence_items import sequence_actions
from once.commit.dedup_record import record_put
from once.commit.item_size import entry_sizes, item_bytes
from once.commit.request_encoding import encoded
from once.errors import TooLarge
from once.handlers.actions import Action, ItemKey, rendered
from once.handlers.transaction import Transaction
from once.schema import Limits, Record
from once.settings import Settings


class CommitRequest(Struct, frozen=True, eq=False):
    """The entries of one transaction: the dedup record first, then its actions.

    Attributes:
        transaction: the transaction, which must not change any more.
        actions: the transaction's actions and the writes of sequence items, by the key of their
            item.
        entries: the dedup record and then each action, as JSON.
        size: size of the entries in bytes, as far as it is known, or an upper bound of it.
    """

    transaction: Transaction
    actions: Mapping[ItemKey, Action]
    entries: list[Raw]
    size: int

    @classmethod
    def of(cls, transaction: Transaction, settings: Settings, now: float) -> Self:
        """Return the request that commits a transaction.

        Args:
            transaction: the transaction.
            settings: name the table of dedup records, and how long keys are remembered.
            now: the time, in seconds since the epoch.

        Raises:
            InvalidWrite: DynamoDB has no type for a value, or no consumer could read an event.
            TooLarge: this transaction alone is over DynamoDB's limits.
        """
        record = record_put(transaction, settings, now)
        actions = transaction.actions()
        if Record.SEQUENCED in record["Put"]["Item"]:
            actions |= sequence_actions(transaction, record["Put"]["Item"], settings)
        _check_number(len(actions))
        entries = [record, *rendered(actions.values(), transaction.commit_id)]
        bodies = encoded(entries)
        # Each name and each value is longer as JSON than in DynamoDB, so most need no count.
        size = sum(map(len, bodies))
        if size > Limits.ITEM_BYTES:
            size = _counted(entries)
        return cls(transaction, actions, bodies, size)


def _check_number(actions: int) -> None:
    if actions >= Limits.TRANSACTION_ACTIONS:
        raise TooLarge(
            f"{actions} actions and the dedup record: DynamoDB takes "
            f"{Limits.TRANSACTION_ACTIONS}; each item written, checked or read counts as one, and "
            "so does each message group of ordered events"
        )


def _counted(entries: Sequence[Mapping[str, Any]]) -> int:
    """Return the size of the entries in bytes, within DynamoDB's limits."""
    sizes = entry_sizes(entries)
    for position, (entry, size) in enumerate(zip(entries, sizes, strict=True)):
        if size > Limits.ITEM_BYTES and "Put" in entry:
            _check_item(entry["Put"], record=position == 0)
    if (total := sum(sizes)) > Limits.TRANSACTION_BYTES:
        raise TooLarge(
            f"the transaction has {total} bytes, items and values together; "
            f"DynamoDB takes {Limits.TRANSACTION_BYTES}"
        )
    return total


def _check_item(put: Mapping[str, Any], *, record: bool) -> None:
    if (size := item_bytes(put["Item"])) <= Limits.ITEM_BYTES:
        return
    if record:
        raise TooLarge(
            f"the dedup record has {size} bytes, and DynamoDB takes {Limits.ITEM_BYTES}: publish "
            "less, or publish where the data can be read instead of the data"
        )
    raise TooLarge(
        f"an item for {put['TableName']} has {size} bytes, names and values together; "
        f"DynamoDB takes {Limits.ITEM_BYTES}"
    )
