"""A transaction as it is sent."""

from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from once.actions import Action
from once.contract import Limits
from once.errors import TooLarge
from once.places import Place
from once.record import record_put
from once.settings import Settings
from once.sizes import entry_bytes
from once.transaction import Transaction

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """An event's claim on its key: the dedup record first, then the transaction's actions.

    Attributes:
        transaction: what it was made from, and is filled no more.
        actions: the transaction's actions.
        entries: what is sent, the record and then each action.
        size: of the entries, in bytes, as far as it is known.
        places: the items that the actions are about.
    """

    transaction: Transaction
    actions: list[Action]
    entries: list["TransactWriteItemTypeDef"]
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
        if (size := sum(map(entry_bytes, entries))) > Limits.TRANSACTION_BYTES:
            raise TooLarge(
                f"the transaction has {size} bytes, items and values together; "
                f"DynamoDB takes {Limits.TRANSACTION_BYTES}"
            )
        return cls(transaction, actions, entries, size, transaction.places)
