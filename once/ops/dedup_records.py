"""Dedup records of a deployment: found by key or by a scan, read, and described as text."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import msgspec

from once.commands.answer import Reply
from once.commit import dedup_record, item_dedup
from once.effects.declaration import Declared
from once.effects.ledger import Intent
from once.events.identity import consumer_of, field_values
from once.names import CLOCK_SKEW_SECONDS, Limits, Outcome, Record, Standing
from once.ops.aws.clients import ATTEMPTS, batches, pause
from once.ops.aws.deployment import Deployment
from once.ops.effect_shapes import shape_of
from once.ops.errors import OpsError
from once.ops.terminal import NOT_READABLE, format_epoch_seconds, from_epoch_seconds

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = Mapping[str, Any]
"""A dedup record, in DynamoDB's own JSON form."""

MESSAGE_LIFETIME_SECONDS = 2 * Limits.QUEUE_STAY_SECONDS + Limits.DEAD_LETTER_RETENTION_SECONDS
"""Longest life of a message that is published now: in its queue, dead-lettered, and redriven once.

Consumers forget an event at about the time when its record here expires. A record with less time
left than this is too old: its events could arrive after that, and would be processed again."""

MAX_READ = 5000
"""Maximum number of records that are read for the recent outboxes: each may hold many events."""

_PAGE = 1000

# A sequence item repeats events of a dedup record, and only those of the last commit.
_COMMITTED_EVENTS = (
    f"attribute_exists({Record.OUTBOX}) AND attribute_not_exists({Record.DEDUP_KEY}) "
    f"AND {Record.COMMITTED_AT} >= :since"
)

_UNITS = {
    Record.COMMITTED_AT: 1000,
    Record.EXPIRES_AT: 1,
    Record.LEASE_UNTIL: 1000,
    Record.KEY_EXPIRES_AT: 1,
}
"""Attributes that are times, with their units per second."""

STANDINGS: dict[str, str] = {
    Standing.IN_FLIGHT: "in flight: its owner is calling the provider, or died",
    Standing.NOT_DONE: "certainly not done",
    Standing.UNKNOWN: "unknown: it may have been done",
    Standing.SETTLED: "settled: its outcome is known, and is committed by the next delivery",
}
"""Text for the standing of a pending effect."""


@dataclass(frozen=True, slots=True)
class ItemTable:
    """The table whose items hold a consumer's records: physical name, and attributes of its key."""

    name: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoundedScan:
    """Matching records, and how many records were read, which is all of them if `complete`.

    `more` is the number of further matching records, which are left out.
    """

    items: list[Item]
    read: int
    complete: bool
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Selects records committed from `since` up to, not including, `until`, by a consumer.

    Commit times are of the functions' clocks, so the period is extended by the clock skew.
    """

    since: datetime
    until: datetime | None
    consumer: str | None


@dataclass(frozen=True, slots=True)
class DedupRecordReader:
    """The dedup records of a deployment, in the dedup table and on the items of business tables.

    The latter are those of the consumers with item dedup, by the consumers' identities.
    """

    dynamodb: "DynamoDBClient"
    name: str
    items: Mapping[str, ItemTable] = field(default_factory=dict)

    @classmethod
    def of(cls, dynamodb: "DynamoDBClient", deployment: Deployment) -> Self:
        items = {
            one.identity: ItemTable(deployment.table(one.item_table), one.item_key)
            for one in deployment.consumers.values()
            if one.item_table is not None
        }
        return cls(dynamodb, deployment.dedup_table, items)

    def get(self, keys: Iterable[str]) -> list[Item]:
        """Return the existing records of these keys. Nothing is scanned."""
        in_table, on_items = [], []
        for key in dict.fromkeys(keys):
            if consumer_of(key) in self.items:
                on_items.append(key)
            elif 0 < len(key.encode()) <= Limits.PARTITION_KEY_BYTES:
                in_table.append({Record.PK: {"S": key}})
        return [*self._read(self.name, in_table), *self._records_on_items(on_items)]

    def _records_on_items(self, keys: Iterable[str]) -> Iterator[Item]:
        """Yield the records that are attributes of business items, in the dedup table's form.

        A dedup key names the consumer, the event type and the key fields' values, which are the
        primary key of the item.
        """
        wanted = defaultdict(list)
        for pk in keys:
            consumer, found = consumer_of(pk), field_values(pk)
            table = self.items[consumer]
            if found is not None and len(found[1]) == len(table.key):
                event_type, values = found
                attribute = item_dedup.item_record_name(consumer, event_type)
                wanted[table].append((pk, event_type, values, attribute))
        for table, places in wanted.items():
            attributes = dict.fromkeys((*table.key, *(attribute for *_, attribute in places)))
            # Two records can be on one item, and DynamoDB refuses a key that is there twice.
            primary_keys = [
                {name: {"S": value} for name, value in zip(table.key, values, strict=True)}
                for values in dict.fromkeys(values for _, _, values, _ in places)
            ]
            items = {
                tuple(item[name]["S"] for name in table.key): item
                for item in self._read(table.name, primary_keys, tuple(attributes))
            }
            for pk, event_type, values, attribute in places:
                record = item_dedup.item_record(items.get(values, {}), attribute)
                if record is not None:
                    yield {**record, Record.PK: {"S": pk}, Record.EVENT_TYPE: {"S": event_type}}

    def _read(self, table: str, keys: list[Any], attributes: Sequence[str] = ()) -> Iterator[Item]:
        names = {f"#n{number}": name for number, name in enumerate(attributes)}
        projection = {"ProjectionExpression": ",".join(names), "ExpressionAttributeNames": names}
        for batch in batches(keys, Limits.BATCH_GET_KEYS):
            request: Any = {
                table: {"Keys": batch, "ConsistentRead": True, **(projection if names else {})}
            }
            for attempt in range(ATTEMPTS):
                if attempt:
                    pause(attempt)
                answer: Any = self.dynamodb.batch_get_item(RequestItems=request)
                yield from answer["Responses"].get(table, [])
                if not (request := answer.get("UnprocessedKeys")):
                    break
            else:
                raise OpsError(
                    f"DynamoDB has no capacity to read records of {table}: run the command again "
                    "later"
                )

    def approximate_count(self) -> int:
        """Return the number of records in the dedup table, which is updated every six hours."""
        return self.dynamodb.describe_table(TableName=self.name)["Table"].get("ItemCount", 0)

    def scan_some(
        self,
        condition: str,
        values: Mapping[str, Any],
        *,
        most: int,
        names: Mapping[str, str] | None = None,
    ) -> BoundedScan:
        """Read a limited number of records of the dedup table, eventually consistent.

        DynamoDB has no index for these conditions, and bills every record that it reads. So the
        result says how many were read, and whether there are more. The condition is a filter
        expression with these values and names of attributes.
        """
        items: list[Item] = []
        read, place = 0, {"ExpressionAttributeNames": names} if names else {}
        while read < most:
            answer: Any = self.dynamodb.scan(
                TableName=self.name,
                FilterExpression=condition,
                ExpressionAttributeValues=values,
                Limit=min(_PAGE, most - read),
                **place,  # type: ignore[arg-type]
            )
            items += answer["Items"]
            read += answer["ScannedCount"]
            if "LastEvaluatedKey" not in answer:
                return BoundedScan(items, read, complete=True)
            place = {**place, "ExclusiveStartKey": answer["LastEvaluatedKey"]}
        return BoundedScan(items, read, complete=False)

    def recent_outboxes(self, since: datetime, most: int) -> BoundedScan:
        """Return at most so many records that committed events since a time, the newest first."""

        def committed_at(item: Item) -> tuple[float, str]:
            moment = time_attribute(item, Record.COMMITTED_AT)
            return moment.timestamp() if moment else 0.0, item[Record.PK]["S"]

        values = {":since": _milliseconds(since)}
        found = self.scan_some(_COMMITTED_EVENTS, values, most=MAX_READ)
        items = sorted(found.items, key=committed_at, reverse=True)
        return replace(found, items=items[:most], more=max(0, len(items) - most))

    def scan_outboxes(self, record_filter: RecordFilter) -> Iterator[tuple[list[Item], int]]:
        """Yield the selected records that hold events, with the number of records in each page.

        The whole table is read. Of a record there are key, commit, outbox and expiry.
        """
        skew = timedelta(seconds=CLOCK_SKEW_SECONDS)
        condition = _COMMITTED_EVENTS
        values: dict[str, Any] = {":since": _milliseconds(record_filter.since - skew)}
        if record_filter.until:
            condition += f" AND {Record.COMMITTED_AT} < :until"
            values[":until"] = _milliseconds(record_filter.until + skew)
        if record_filter.consumer:
            condition += f" AND begins_with({Record.PK}, :consumer)"
            values[":consumer"] = {"S": f"{record_filter.consumer}#"}
        pages = self.dynamodb.get_paginator("scan").paginate(
            TableName=self.name,
            ConsistentRead=True,
            ProjectionExpression=f"{Record.PK}, #commit, {Record.OUTBOX}, {Record.EXPIRES_AT}",
            ExpressionAttributeNames={"#commit": Record.COMMIT},  # a reserved word
            FilterExpression=condition,
            ExpressionAttributeValues=values,
        )
        for page in pages:
            yield [*page["Items"]], page["ScannedCount"]


def _milliseconds(moment: datetime) -> dict[str, str]:
    return {"N": str(int(moment.timestamp() * 1000))}


class UnreadableRecord(Exception):
    """A record that this version of `once` cannot read; the text says why."""


def read_record(item: Item) -> dedup_record.StoredRecord:
    """Read a whole record, with all of its times in range; raise UnreadableRecord if it is not."""
    if names := unreadable_times(item):
        raise UnreadableRecord(f"{', '.join(names)}: no point in time")
    try:
        return dedup_record.StoredRecord.read(item)
    except (KeyError, ValueError) as error:
        missing = " is missing, or of another type" if isinstance(error, KeyError) else ""
        raise UnreadableRecord(f"{error}{missing}") from None


def text_attribute(item: Item, name: str) -> str | None:
    """Return a text attribute; `NOT_READABLE` if it is not a text, None if missing."""
    value: dict[str, Any] | None = item.get(name)
    return None if value is None else value.get("S", NOT_READABLE)


def time_attribute(item: Item, name: str) -> datetime | None:
    """Return a time attribute; None if it is not readable, or missing."""
    with suppress(KeyError, ValueError):
        return from_epoch_seconds(int(item[name]["N"]) / _UNITS[name])
    return None


def unreadable_times(item: Item) -> list[str]:
    return [name for name in _UNITS if name in item and time_attribute(item, name) is None]


def stored_answer(item: Item) -> Reply | None:
    """Return the answer of a command's record; None if it is not readable, or missing."""
    with suppress(UnreadableRecord, KeyError, TypeError, ValueError):
        if (record := read_record(item)).answer is not None:
            return Reply.stored(record)
    return None


def record_lines(item: Item, now: datetime) -> list[str]:
    """Return a description of a record, as lines: its commit, or the state of its effect."""
    try:
        found = read_record(item)
    except UnreadableRecord as error:
        return [f"{NOT_READABLE}: {error}"]
    if found.intent is not None:
        return _pending_lines(found, found.intent, now)
    names = (Record.OUTCOME, Record.REFUSAL, Record.EFFECT, Record.PROVIDER_KEY, Record.SETTLEMENT)
    outcome, refusal, effect, key, settlement = (text_attribute(item, name) for name in names)
    refused = f" ({refusal})" if refusal else ""
    lines = [f"{outcome or Outcome.ACCEPTED}{refused}, committed at {format_written_at(found)}"]
    if effect:
        lines.append(f"effect {effect!r} has an outcome; key at the provider: {key}")
        lines += [] if settlement is None else [f"settled by hand: {settlement}"]
    if answer := stored_answer(item):
        lines.append(f"answer with status {answer.status}, {len(answer.body)} bytes")
    end = found.expires_at
    return [*lines, f"remembered {f'until {format_epoch_seconds(end)}' if end else 'without end'}"]


def _pending_lines(record: dedup_record.StoredRecord, intent: Intent, now: datetime) -> list[str]:
    expiry, lease = intent.key_expires_at, intent.lease_until / 1000
    remembered = (
        f"may be forgotten from {format_epoch_seconds(expiry)}" if expiry else "not remembered"
    )
    over = "over" if lease <= now.timestamp() else "running"
    more = {"outcome": intent.outcome, "settled by hand": intent.settlement}
    if known := declared(intent):
        shape = "" if known.returns is None else f"; it returns {shape_of(known.returns)}"
        more = {"policy": f"{known.policy}{shape}", **more}
    return [
        f"pending since {format_written_at(record)}, remembered without end",
        f"effect {intent.effect!r}: {STANDINGS[intent.standing]}",
        f"key at the provider: {intent.provider_key} ({remembered})",
        f"lease until {format_epoch_seconds(lease)} ({over})",
        *(f"{name}: {value}" for name, value in more.items() if value is not None),
    ]


def declared(intent: Intent) -> Declared | None:
    """Return the declaration of a pending effect; None if its record has none."""
    with suppress(ValueError):  # of a later version
        return msgspec.json.decode(intent.declared or "", type=Declared)
    return None


def format_written_at(record: dedup_record.StoredRecord) -> str:
    """Return the time of a record's last write as text."""
    return format_epoch_seconds(record.committed_at / 1000)
