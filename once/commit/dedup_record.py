"""Dedup record: one item that says "this consumer committed this event"."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from once.commit._sequence_items import sequenced_types
from once.effects.intent import Intent
from once.events.cloud_event import CloudEvent
from once.events.outgoing import written
from once.schema import (
    CAUSE_EXTENSION,
    CLOCK_MARGIN_SECONDS,
    SCHEMA_VERSION,
    SOURCE_PREFIX,
    Outcome,
    Record,
    State,
)
from once.settings import CommitSettings
from once.transaction import Transaction

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

READ = (
    *(Record.PK, Record.STATE, Record.FINGERPRINT, Record.COMMIT, Record.EXPIRES_AT),
    *(Record.COMMITTED_AT, Record.EFFECT, Record.PROVIDER_KEY, Record.REQUEST),
    *(Record.KEY_EXPIRES_AT, Record.OWNER, Record.LEASE_UNTIL, Record.STANDING),
    *(Record.EFFECT_OUTCOME, Record.SETTLEMENT),
)
"""The attributes that `StoredRecord` reads: all but the outbox, which may be large."""

# DynamoDB's TTL takes up to days to delete an expired record, so the condition compares the expiry.
# The margin covers the difference between the clocks of the function that wrote it and of this one.
# ALL_OLD returns the existing record, which tells a duplicate from a key conflict without a read.
# A pending record has no expiry, because its effect may have happened.
_NEW_OR_EXPIRED = f"attribute_not_exists({Record.PK}) OR {Record.EXPIRES_AT} < :expired_before"
_STILL_MINE = "#state = :pending AND #owner = :owner"


class _Condition(TypedDict, total=False):
    ConditionExpression: str
    ExpressionAttributeNames: dict[str, str]
    ExpressionAttributeValues: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A dedup record as it was found in the table; `committed_at` is in milliseconds."""

    fingerprint: str
    commit: str
    committed_at: int
    expires_at: int | None
    intent: Intent | None

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> "StoredRecord":
        """Read a record from DynamoDB's own JSON form."""
        expires = item.get(Record.EXPIRES_AT)
        return cls(
            fingerprint=item[Record.FINGERPRINT]["S"],
            commit=item[Record.COMMIT]["S"],
            committed_at=int(item[Record.COMMITTED_AT]["N"]),
            expires_at=None if expires is None else int(expires["N"]),
            intent=Intent.read(item) if item[Record.STATE]["S"] == State.PENDING else None,
        )

    def expired(self, now: float) -> bool:
        """Return whether a new event may take the key; agrees with the condition of the put."""
        return self.expires_at is not None and self.expires_at < int(now) - CLOCK_MARGIN_SECONDS


def expired_before(now: float) -> dict[str, Any]:
    """Return the time that the expiry of a forgotten record lies before, in DynamoDB's JSON."""
    return {"N": str(int(now) - CLOCK_MARGIN_SECONDS)}


def record_key(pk: str) -> dict[str, Any]:
    """Return the primary key of a dedup record, in DynamoDB's own JSON form."""
    return {Record.PK: {"S": pk}}


def record_put(
    transaction: Transaction, settings: CommitSettings, now: float
) -> "TransactWriteItemTypeDef":
    """Return the entry of TransactItems that puts the dedup record.

    A transaction with an intent puts a pending record, any other a done one. The completion of an
    effect replaces its pending record, on condition that the transaction still owns it.

    Args:
        transaction: the transaction that the record belongs to.
        settings: name the table, and how long keys are remembered.
        now: the time, in seconds since the epoch.

    Raises:
        InvalidWrite: no consumer could read an event of the outbox.
    """
    return {
        "Put": {
            "TableName": settings.dedup_table,
            "Item": {
                **record_key(transaction.identity.pk),
                Record.EVENT_TYPE: {"S": transaction.event.type},
                **record_attributes(transaction, settings, now),
            },
            **_condition(transaction, now),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
    }


def _condition(transaction: Transaction, now: float) -> "_Condition":
    if transaction.owned is None:
        return {
            "ConditionExpression": _NEW_OR_EXPIRED,
            "ExpressionAttributeValues": {":expired_before": expired_before(now)},
        }
    owner = {"S": transaction.owned.owner}
    return {
        "ConditionExpression": _STILL_MINE,
        "ExpressionAttributeNames": {"#state": Record.STATE, "#owner": Record.OWNER},
        "ExpressionAttributeValues": {":pending": {"S": State.PENDING}, ":owner": owner},
    }


def record_attributes(
    transaction: Transaction, settings: CommitSettings, now: float
) -> dict[str, Any]:
    """Return the attributes of a record besides its key and its event type, in DynamoDB's JSON."""
    if transaction.intent is not None:
        return {
            **_commit(transaction, State.PENDING, now),
            **transaction.intent.item(),
        }
    outcome = Outcome.ACCEPTED if transaction.refusal is None else Outcome.REFUSED
    item = {
        **_commit(transaction, State.DONE, now),
        Record.OUTCOME: {"S": outcome},
        Record.EXPIRES_AT: {"N": str(int(now) + settings.dedup_window_seconds)},
    }
    if transaction.owned is not None:
        item |= transaction.owned.trail()
    if transaction.refusal is not None:
        item[Record.REFUSAL] = {"S": type(transaction.refusal).__name__}
    if transaction.drafts:
        item[Record.OUTBOX] = {"S": _outbox(transaction, settings, now)}
        if types := sequenced_types(transaction, settings):
            item[Record.SEQUENCED] = {"SS": types}
    return item


def _commit(transaction: Transaction, state: State, now: float) -> dict[str, Any]:
    return {
        Record.SCHEMA: {"N": str(SCHEMA_VERSION)},
        Record.STATE: {"S": state},
        Record.FINGERPRINT: {"S": transaction.identity.fingerprint},
        Record.COMMIT: {"S": transaction.commit_id},
        Record.COMMITTED_AT: {"N": str(int(now * 1000))},
        **_cause(transaction.event),
    }


def _cause(event: CloudEvent) -> dict[str, Any]:
    # A producer can set the extension, and only the relay publishes under a consumer's source.
    cause = event.extensions.get(CAUSE_EXTENSION)
    if not (isinstance(cause, str) and event.source.startswith(SOURCE_PREFIX)):
        return {}
    return {Record.CAUSE: {"S": cause}}


def _outbox(transaction: Transaction, settings: CommitSettings, now: float) -> str:
    return written(
        transaction.drafts,
        inbound=transaction.event,
        pk=transaction.identity.pk,
        consumer=settings.consumer,
        now=now,
    )
