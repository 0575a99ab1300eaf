"""Dedup store: where the dedup records of a consumer are kept, and how they commit.

Only annotations need it; `once.commit.request.dedup_store` chooses a store.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw

from once.commit._record_lookup import Item
from once.commit.result import CommitResult
from once.handlers.actions import Action, ItemKey
from once.handlers.transaction import Transaction

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DedupStore(Protocol):
    """The dedup records of one consumer. Items and entries are in DynamoDB's own JSON form."""

    def prepared(
        self, transaction: Transaction, now: float
    ) -> tuple[Mapping[ItemKey, Action], list[Any]]:
        """Return the actions to commit, and entries of TransactItems with them and their record.

        Raises:
            InvalidWrite: the actions cannot commit in this store, DynamoDB has no type for a value,
                or no consumer could read an event.
        """
        ...

    def to_send(self, entries: Sequence[Any], bodies: Sequence[Raw]) -> list[Any]:
        """Return entries in the form that `send` takes: as they are, or their bodies in JSON."""
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
