"""Record store: each dedup record is an item of the dedup table (`Dedup.RECORD`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from once.commit._cancellation import classify
from once.commit._record_lookup import Item, look_up
from once.commit._sequence_items import sequence_actions
from once.commit.dedup_record import record_put
from once.commit.result import CommitResult
from once.schema import Record
from once.settings import CommitSettings
from once.transaction import Action, ItemKey, Transaction

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True, slots=True)
class RecordStore:
    """The store of most consumers; see `once.commit._dedup_store.DedupStore` for the methods.

    Attributes:
        settings: name the dedup table, and how long keys are remembered.
        plain_write: None: a record is always part of a transaction.
    """

    settings: CommitSettings
    plain_write: ClassVar[None] = None

    def prepared(
        self, transaction: Transaction, now: float
    ) -> tuple[Mapping[ItemKey, Action], list[Any]]:
        """Return the actions and the sequence items; the entries begin with the record."""
        record = record_put(transaction, self.settings, now)
        more: dict[ItemKey, Action] = {}
        if Record.SEQUENCED in record["Put"]["Item"]:
            more = sequence_actions(transaction, record["Put"]["Item"], self.settings)
        if transaction.identity.former is not None:
            # Loaded late: only consumers that moved to Once lately use it.
            from once.commit._former_records import former_action

            more |= former_action(transaction, transaction.identity.former, self.settings, now)
        actions, entries = transaction.rendered(more)
        return actions, [record, *entries]

    def classify(
        self,
        transaction: Transaction,
        actions: Sequence[Action],
        reasons: Sequence[Any],
        made_at: float,
    ) -> CommitResult:
        """Return the result that the reasons of the record and of the actions give."""
        if (former := transaction.identity.former) is not None:
            from once.commit._former_records import classify_former

            result = classify_former(former, actions, reasons, self.settings, made_at)
            if result is not None:
                return result
        return classify(transaction, actions, reasons)

    def look_up(
        self, client: "DynamoDBClient", transactions: Sequence[Transaction]
    ) -> list[Item | None]:
        """Read the records in one request; at most a hundred."""
        pks = [transaction.identity.pk for transaction in transactions]
        found = look_up(client, self.settings.dedup_table, pks)
        return [found.get(pk) for pk in pks]
