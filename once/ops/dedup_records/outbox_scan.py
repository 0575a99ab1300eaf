"""Outbox scan: pages of dedup records with unexpired events, by period and consumer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from once.ops.dedup_records.dedup_table import Item
from once.ops.dedup_records.stored_record import time_attribute
from once.schema import CLOCK_SKEW_SECONDS, Limits, Record

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MESSAGE_LIFETIME_SECONDS = 2 * Limits.QUEUE_STAY_SECONDS + Limits.DEAD_LETTER_RETENTION_SECONDS
"""Longest life of a message that is published now: in its queue, dead-lettered, and redriven once.

Consumers forget an event at about the time when its record here expires. A record with less time
left than this is too old: its events could arrive after that, and would be processed again."""

# A sequence item repeats events of a dedup record, and only those of the last commit.
_FILTER = (
    f"attribute_exists({Record.OUTBOX}) AND attribute_not_exists({Record.DEDUP_KEY}) "
    f"AND {Record.COMMITTED_AT} >= :since"
)
_UNTIL = f" AND {Record.COMMITTED_AT} < :until"
_CONSUMER = f" AND begins_with({Record.PK}, :consumer)"
_SKEW = timedelta(seconds=CLOCK_SKEW_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Selects records committed from `since` up to, not including, `until`, by a consumer.

    Commit times are of the functions' clocks, so the period is extended by the clock skew.
    """

    since: datetime
    until: datetime | None
    consumer: str | None


@dataclass(frozen=True, slots=True)
class OutboxPage:
    """One page of the scan.

    Attributes:
        items: selected records that may be published, in DynamoDB's JSON form.
        scanned: number of records that the page covered.
        too_old: number of selected records that may not be published any more.
        unreadable: selected records whose expiry cannot be read.
    """

    items: list[Item]
    scanned: int
    too_old: int
    unreadable: list[Item]


def scan_outboxes(
    dynamodb: "DynamoDBClient", table: str, record_filter: RecordFilter
) -> Iterator[OutboxPage]:
    """Yield pages of the selected records that hold events: key, commit, outbox and expiry.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: the table cannot be read.
    """
    condition, values = _terms(record_filter)
    pages = dynamodb.get_paginator("scan").paginate(
        TableName=table,
        ConsistentRead=True,
        ProjectionExpression=f"{Record.PK}, #commit, {Record.OUTBOX}, {Record.EXPIRES_AT}",
        ExpressionAttributeNames={"#commit": Record.COMMIT},  # a reserved word
        FilterExpression=condition,
        ExpressionAttributeValues=values,
    )
    end = datetime.now(UTC) + timedelta(seconds=MESSAGE_LIFETIME_SECONDS)
    for page in pages:
        yield _page(page["Items"], page["ScannedCount"], end)


def _page(found: Sequence[Item], scanned: int, end: datetime) -> OutboxPage:
    expiries = [(item, time_attribute(item, Record.EXPIRES_AT)) for item in found]
    unreadable = [item for item, expiry in expiries if expiry is None]
    items = [item for item, expiry in expiries if expiry is not None and expiry > end]
    too_old = len(found) - len(items) - len(unreadable)
    return OutboxPage(items, scanned, too_old, unreadable)


def approximate_count(dynamodb: "DynamoDBClient", table: str) -> int:
    """Return the number of records, which DynamoDB updates every six hours.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: the table cannot be described.
    """
    return dynamodb.describe_table(TableName=table)["Table"].get("ItemCount", 0)


def _terms(record_filter: RecordFilter) -> tuple[str, dict[str, Any]]:
    condition = _FILTER
    values: dict[str, Any] = {":since": _milliseconds(record_filter.since - _SKEW)}
    if record_filter.until:
        condition += _UNTIL
        values[":until"] = _milliseconds(record_filter.until + _SKEW)
    if record_filter.consumer:
        condition += _CONSUMER
        values[":consumer"] = {"S": f"{record_filter.consumer}#"}
    return condition, values


def _milliseconds(moment: datetime) -> dict[str, str]:
    return {"N": str(int(moment.timestamp() * 1000))}
