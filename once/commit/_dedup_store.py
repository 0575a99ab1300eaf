"""Dedup store: where the dedup records of a consumer are kept, and how they commit.

Only annotations need it; `once.commit.request.dedup_store` chooses a store.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from once.commit._record_lookup import Item
from once.commit.result import CommitResult
from once.transaction import Action, ItemKey, Transaction

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


PlainWrite = Callable[["DynamoDBClient", Any], None]
"""Sends one entry of TransactItems as a write of its own. It raises what the client raises."""


class DedupStore(Protocol):
    """The dedup records of one consumer. Items and entries are in DynamoDB's own JSON form."""

    @property
    def plain_write(self) -> PlainWrite | None:
        """The write of a consumer whose messages commit alone, outside of transactions."""
        ...

    def prepared(
        self, transaction: Transaction, now: float
    ) -> tuple[Mapping[ItemKey, Action], list[Any]]:
        """Return the actions to commit, and entries of TransactItems with them and their record.

        Raises:
            InvalidWrite: the actions cannot commit in this store, DynamoDB has no type for a value,
                or no consumer could read an event.
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
