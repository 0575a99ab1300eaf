"""Dedup store: where the dedup records of a consumer are kept, and how they commit."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from once.commit._record_lookup import Item
from once.commit._record_store import RecordStore
from once.commit.result import CommitResult
from once.handlers.actions import Action, ItemKey
from once.handlers.transaction import Transaction
from once.settings import Dedup, Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DedupStore(Protocol):
    """The dedup records of one consumer. Items and entries are in DynamoDB's own JSON form."""

    def entries(
        self, transaction: Transaction, actions: Mapping[ItemKey, Action], now: float
    ) -> list[Any]:
        """Return entries of TransactItems that commit the actions together with their record.

        Raises:
            InvalidWrite: the actions cannot commit in this store, DynamoDB has no type for a value,
                or no consumer could read an event.
        """
        ...

    def encoded(self, entries: Sequence[Any]) -> list[Any]:
        """Return entries in the form that `send` takes.

        Raises:
            InvalidWrite: an entry cannot be sent.
        """
        ...

    def send(self, client: "DynamoDBClient", entries: Sequence[Any]) -> None:
        """Send the entries of one or more transactions, which commit together.

        Raises:
            botocore.exceptions.ClientError, BotoCoreError: they did not commit, or no answer came.
        """
        ...

    def classify(
        self,
        transaction: Transaction,
        actions: Sequence[Action],
        reasons: Sequence[Any],
        made_at: float,
    ) -> CommitResult:
        """Return the result of a transaction that did not commit.

        Args:
            transaction: the transaction.
            actions: its actions, in the order of the request.
            reasons: one cancellation reason for each of its entries.
            made_at: the time that was given to `entries`.
        """
        ...

    def look_up(
        self, client: "DynamoDBClient", transactions: Sequence[Transaction]
    ) -> list[Item | None]:
        """Return the record of each transaction's event, read consistently; None if there is none.

        Raises:
            OutcomeUnknown: DynamoDB did not answer for every event.
        """
        ...


def dedup_store(settings: Settings) -> DedupStore:
    """Return the store that a consumer's settings name."""
    if settings.dedup is Dedup.RECORD:
        return RecordStore(settings)
    # Loaded late: few consumers use it, and each module costs time at a cold start.
    from once.commit._item_store import ItemStore

    return ItemStore(settings)
