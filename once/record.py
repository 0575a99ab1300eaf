"""The dedup record: one item that says "this consumer committed this event"."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from once.contract import SCHEMA_VERSION, Record, State
from once.settings import Settings
from once.transaction import Transaction

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

CLOCK_SKEW_SECONDS = 300
"""A record counts as expired only this long after its time: the clocks of two functions differ."""

# TTL deletes within days, so a record that is past its time may still be there: the condition, and
# not TTL, is the window. ALL_OLD hands back the record in the way, which tells a duplicate from a
# conflict without another read.
_NEW_OR_EXPIRED = f"attribute_not_exists({Record.PK}) OR {Record.EXPIRES_AT} < :expired_before"


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A dedup record as it was found in the table."""

    fingerprint: str
    commit: str
    expires_at: int

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> "StoredRecord":
        """Read a record from DynamoDB's own JSON form."""
        return cls(
            fingerprint=item[Record.FINGERPRINT]["S"],
            commit=item[Record.COMMIT]["S"],
            expires_at=int(item[Record.EXPIRES_AT]["N"]),
        )

    def expired(self, now: float) -> bool:
        """Tell whether a new event may take the key, as the condition of the put has it."""
        return self.expires_at < int(now) - CLOCK_SKEW_SECONDS


def record_key(pk: str) -> dict[str, Any]:
    """Return the primary key of a dedup record, in DynamoDB's own JSON form."""
    return {Record.PK: {"S": pk}}


def record_put(
    transaction: Transaction, settings: Settings, now: float
) -> "TransactWriteItemTypeDef":
    """Return the entry of TransactItems that claims the event for its consumer.

    Args:
        transaction: what commits with the record.
        settings: names the table, and says how long keys are remembered.
        now: the time, in seconds since the epoch.
    """
    return {
        "Put": {
            "TableName": settings.dedup_table,
            "Item": _item(transaction, settings, now),
            "ConditionExpression": _NEW_OR_EXPIRED,
            "ExpressionAttributeValues": {
                ":expired_before": {"N": str(int(now) - CLOCK_SKEW_SECONDS)}
            },
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
    }


def _item(transaction: Transaction, settings: Settings, now: float) -> dict[str, Any]:
    item: dict[str, Any] = {
        **record_key(transaction.identity.pk),
        Record.SCHEMA: {"N": str(SCHEMA_VERSION)},
        Record.STATE: {"S": State.DONE},
        Record.FINGERPRINT: {"S": transaction.identity.fingerprint},
        Record.COMMIT: {"S": transaction.commit_id},
        Record.EVENT_TYPE: {"S": transaction.event.type},
        Record.OUTCOME: {"S": transaction.outcome},
        Record.COMMITTED_AT: {"N": str(int(now * 1000))},
        Record.EXPIRES_AT: {"N": str(int(now) + settings.dedup_window_seconds)},
    }
    if transaction.refusal is not None:
        item[Record.REFUSAL] = {"S": type(transaction.refusal).__name__}
    return item
