"""A transaction as it is sent."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Self

from msgspec import Raw

from once.commit.dedup_record import record_put
from once.commit.item_size import entry_bytes, item_bytes
from once.commit.request_encoding import encoded
from once.errors import TooLarge
from once.handlers.actions import Action
from once.handlers.item_key import Place
from once.handlers.transaction import Transaction
from once.schema import Limits
from once.settings import Settings


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """An event's claim on its key: the dedup record first, then the transaction's actions.

    Attributes:
        transaction: what it was made from, and is filled no more.
        actions: the transaction's actions.
        entries: what is sent, the record and then each action, each as JSON.
        size: of the entries, in bytes, as far as it is known.
        places: the items that the actions are about.
    """

    transaction: Transaction
    actions: list[Action]
    entries: list[Raw]
    size: int
    places: Set[Place]

    @classmethod
    def of(cls, transaction: Transaction, settings: Settings, now: float) -> Self:
        """Return the claim of a transaction.

        Args:
            transaction: what is to commit.
            settings: names the table of dedup records, and says how long keys are remembered.
            now: the time, in seconds since the epoch.

        Raises:
            InvalidWrite: a value that DynamoDB has no type for, or an event no consumer could read.
            TooLarge: over DynamoDB's limits, alone in its request.
        """
        actions = transaction.actions()
        entries = [
            record_put(transaction, settings, now),
            *(action.render(transaction.commit_id) for action in actions),
        ]
        size = sum(_sizes(entries))
        if size > Limits.TRANSACTION_BYTES:
            raise TooLarge(
                f"the transaction has {size} bytes, items and values together; "
                f"DynamoDB takes {Limits.TRANSACTION_BYTES}"
            )
        return cls(transaction, actions, list(map(encoded, entries)), size, transaction.places)


def _sizes(entries: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    for position, entry in enumerate(entries):
        size = entry_bytes(entry)
        if size > Limits.ITEM_BYTES and "Put" in entry:
            _check_item(entry["Put"], record=position == 0)
        yield size


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
