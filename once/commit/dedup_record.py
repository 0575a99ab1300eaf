"""Dedup record: one item that says "this consumer committed this event"; written and read here."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from msgspec import Struct

from once.effects.ledger import Intent
from once.errors import THROTTLING, OutcomeUnknown, Throttled, summary_of
from once.events.outgoing import Draft, due_time, events_in, written
from once.names import (
    CAUSE_EXTENSION,
    CLOCK_MARGIN_SECONDS,
    SCHEMA_VERSION,
    SOURCE_PREFIX,
    Outcome,
    Record,
    State,
    sequence_key,
)
from once.settings import CommitSettings, TableSettings
from once.transaction import Transaction
from once.write_expressions import Action

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from once.business_tables import ItemKey

Item = dict[str, Any]

READ = (
    *(Record.PK, Record.STATE, Record.FINGERPRINT, Record.COMMIT, Record.EXPIRES_AT),
    *(Record.COMMITTED_AT, Record.EFFECT, Record.PROVIDER_KEY, Record.REQUEST),
    *(Record.KEY_EXPIRES_AT, Record.OWNER, Record.LEASE_UNTIL, Record.STANDING),
    *(Record.EFFECT_OUTCOME, Record.SETTLEMENT, Record.DECLARED, Record.ANSWER, Record.REFUSAL),
)
"""The attributes that `StoredRecord` reads: all but the outbox, which may be large."""

_READ_ROUNDS = 3
"""Attempts at the keys that DynamoDB returns as unprocessed for lack of capacity."""

# Condition of a new event's record. Two functions have the same event, in deliveries A and B:
#
#     A: run ── commit ──────────────> record A and A's writes are in the tables
#     B: run ─────────────── commit ─> cancelled: there is a record, and ALL_OLD returns it
#                                      same fingerprint: B is a duplicate; none of B's writes
#                                      other fingerprint: B is a key conflict
#
# If both commit at once, DynamoDB lets one of them wait or cancels it as a conflict. In each order
# one record exists, beside the writes of the same delivery.
#
# `expires_at <`: TTL deletes an expired record up to days later, so the condition compares the
# expiry itself. The margin covers the difference between the clocks of the function that wrote the
# record and of this one. A pending record has no expiry, because its effect may have happened.
_NEW_OR_EXPIRED = f"attribute_not_exists({Record.PK}) OR {Record.EXPIRES_AT} < :expired_before"

# Condition of an effect's completion, which replaces the pending record. A's lease is over while it
# still hangs in its call:
#
#     A: intent (owner a) ── call ....................... answer ── completion ─> cancelled
#     B:                       takeover (owner b) ── call ── completion ─> done
#
# Without the owner in the condition, A would commit the writes of its completion a second time. The
# state is compared as well: no completion replaces a done record.
_STILL_MINE = "#state = :pending AND #owner = :owner"


class StoredRecord(Struct, frozen=True):
    """A dedup record as it was found in the table; `committed_at` is in milliseconds.

    `answer` is that of a command, in DynamoDB's JSON; `refusal` the class of a business refusal.
    """

    fingerprint: str
    commit: str
    committed_at: int
    expires_at: int | None
    intent: Intent | None
    answer: Mapping[str, Any] | None = None
    refusal: str | None = None

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
            answer=item.get(Record.ANSWER),
            refusal=item.get(Record.REFUSAL, {}).get("S"),
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


def record_put(transaction: Transaction, settings: CommitSettings, now: float) -> dict[str, Any]:
    """Return the entry of TransactItems that puts the dedup record.

    A transaction with an intent puts a pending record, any other a done one. The completion of an
    effect replaces its pending record, on condition that the transaction still owns it.

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


def _condition(transaction: Transaction, now: float) -> dict[str, Any]:
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
    event, intent = transaction.event, transaction.intent
    item: dict[str, Any] = {
        Record.SCHEMA: {"N": str(SCHEMA_VERSION)},
        Record.STATE: {"S": State.DONE if intent is None else State.PENDING},
        Record.FINGERPRINT: {"S": transaction.identity.fingerprint},
        Record.COMMIT: {"S": transaction.commit_id},
        Record.COMMITTED_AT: {"N": str(int(now * 1000))},
    }
    # A producer can set the extension, and only the relay publishes under a consumer's source.
    cause = event.extensions.get(CAUSE_EXTENSION)
    if isinstance(cause, str) and event.source.startswith(SOURCE_PREFIX):
        item[Record.CAUSE] = {"S": cause}
    if intent is not None:
        return item | intent.item()
    outcome = Outcome.ACCEPTED if transaction.refusal is None else Outcome.REFUSED
    item[Record.OUTCOME] = {"S": outcome}
    # A record with due events is kept as long as they wait: its outbox can publish them again.
    until = max([now, *(due_time(each, now) or 0 for each in transaction.drafts)])
    item[Record.EXPIRES_AT] = {"N": str(int(until) + settings.dedup_window_seconds)}
    if transaction.owned is not None:
        item |= transaction.owned.trail()
    if transaction.refusal is not None:
        item[Record.REFUSAL] = {"S": type(transaction.refusal).__name__}
    if transaction.answer is not None:
        item[Record.ANSWER] = transaction.answer
    if transaction.drafts:
        outbox = written(
            transaction.drafts,
            inbound=event,
            pk=transaction.identity.pk,
            consumer=settings.consumer,
            now=now,
        )
        item[Record.OUTBOX] = {"S": outbox}
        if types := sequenced_types(transaction, settings):
            item[Record.SEQUENCED] = {"SS": types}
    return item


def read_records(client: "DynamoDBClient", table: str, pks: Sequence[str]) -> dict[str, Item]:
    """Read at most a hundred dedup records consistently, in one request.

    Returns the records in DynamoDB's own JSON form, by partition key. A key without a record is
    left out.

    Raises:
        OutcomeUnknown: DynamoDB did not answer.
        Throttled: it had no capacity for every key.
    """
    # DynamoDB refuses a request that names one key twice.
    keys = [record_key(pk) for pk in dict.fromkeys(pks)]
    return {item[Record.PK]["S"]: item for item in read_items(client, table, keys, READ)}


def read_items(
    client: "DynamoDBClient", table: str, keys: list[Any], attributes: Sequence[str]
) -> Iterator[Item]:
    """Yield these attributes of the items that exist, read consistently.

    At most a hundred primary keys are given, all different.

    Raises:
        OutcomeUnknown: DynamoDB did not answer.
        Throttled: it had no capacity for every key.
    """
    if not keys:
        return
    names = {f"#n{number}": name for number, name in enumerate(dict.fromkeys(attributes))}
    request: Any = {
        table: {
            "Keys": keys,
            "ConsistentRead": True,
            "ProjectionExpression": ",".join(names),
            "ExpressionAttributeNames": names,
        }
    }
    for _ in range(_READ_ROUNDS):
        try:
            answer: Any = client.batch_get_item(RequestItems=request)
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            if isinstance(error, ClientError) and error.response["Error"]["Code"] in THROTTLING:
                break
            raise OutcomeUnknown(f"no answer, and no record: {summary_of(error)}") from None
        yield from answer["Responses"].get(table, [])
        if not (request := answer.get("UnprocessedKeys")):
            return
    raise Throttled(f"DynamoDB throttled a read of the table {table}")


# Sequence items: the order in which the events of one message group were committed. DynamoDB's
# stream keeps the order of changes to one item only. A commit that publishes ordered events
# therefore writes them into one item for each of their message groups as well, in the same
# transaction. The relay publishes them from the changes of that item.

_SEQUENCES = "the sequence items"
"""Stands for their table in item keys. No table that a consumer declares has a name with spaces."""


def sequenced_types(transaction: Transaction, settings: CommitSettings) -> list[str]:
    """Return the types of the events that a transaction publishes through sequence items."""
    return sorted({each.type for each in transaction.drafts if _is_ordered(each, settings)})


def sequence_actions(
    transaction: Transaction, record: Mapping[str, Any], settings: CommitSettings
) -> "dict[ItemKey, Action]":
    """Return the writes of the sequence items, one for each message group of ordered events.

    The transaction's dedup record, in DynamoDB's JSON, names ordered types.
    """
    groups: dict[str, list[str]] = {}
    for each, event in zip(transaction.drafts, events_in(record), strict=True):
        if _is_ordered(each, settings):
            groups.setdefault(each.group or "", []).append(event.body)
    table = TableSettings(settings.dedup_table, (Record.PK,))
    actions: dict[ItemKey, Action] = {}
    for group, bodies in groups.items():
        key = {Record.PK: sequence_key(settings.consumer, group)}
        # It expires with the record: the relay has read the stream by then, and a group that is
        # never used again leaves nothing behind. Its commit id is the attribute of every written
        # item.
        item = {
            **key,
            Record.SCHEMA: SCHEMA_VERSION,
            Record.DEDUP_KEY: record[Record.PK]["S"],
            Record.COMMITTED_AT: int(record[Record.COMMITTED_AT]["N"]),
            Record.EXPIRES_AT: int(record[Record.EXPIRES_AT]["N"]),
            Record.OUTBOX: f"[{','.join(bodies)}]",
        }
        action = Action(kind="Put", table=table, key=key, item=item)
        actions[_SEQUENCES, tuple(key.items())] = action
    return actions


def _is_ordered(each: Draft, settings: CommitSettings) -> bool:
    return each.group is not None and each.type in settings.ordered_types
