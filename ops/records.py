"""Reads dedup records: whole pages of the table, and of those what was asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from once.contract import Record

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# A record past its time counts as gone, although TTL may take days: what its consumers remembered
# of its events may be gone as well, and they would take them for new ones.
_FILTER = (
    f"attribute_exists({Record.OUTBOX}) AND {Record.EXPIRES_AT} > :now"
    f" AND {Record.COMMITTED_AT} >= :since"
)
_UNTIL = f" AND {Record.COMMITTED_AT} < :until"
_CONSUMER = f" AND begins_with({Record.PK}, :consumer)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which records: committed from `since` up to, not including, `until`; by which consumer."""

    since: datetime
    until: datetime | None
    consumer: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """What one call found: the chosen records, in DynamoDB's own JSON form, of all it looked at."""

    items: list[Mapping[str, Any]]
    looked_at: int


def with_outbox(dynamodb: "DynamoDBClient", table: str, choice: Choice) -> Iterator[Page]:
    """Yield the chosen records that hold events, key and outbox only; a page may have none.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: the table cannot be read.
    """
    condition, values = _terms(choice)
    pages = dynamodb.get_paginator("scan").paginate(
        TableName=table,
        ConsistentRead=True,
        ProjectionExpression=f"{Record.PK}, {Record.OUTBOX}",
        FilterExpression=condition,
        ExpressionAttributeValues=values,
    )
    for page in pages:
        yield Page([*page["Items"]], page["ScannedCount"])


def approximate_count(dynamodb: "DynamoDBClient", table: str) -> int:
    """Return how many records there are, as the table knew it within the last hours.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: the table cannot be described.
    """
    return dynamodb.describe_table(TableName=table)["Table"].get("ItemCount", 0)


def _terms(choice: Choice) -> tuple[str, dict[str, Any]]:
    condition = _FILTER
    now = int(datetime.now(UTC).timestamp())
    values: dict[str, Any] = {":now": {"N": str(now)}, ":since": _milliseconds(choice.since)}
    if choice.until:
        condition += _UNTIL
        values[":until"] = _milliseconds(choice.until)
    if choice.consumer:
        condition += _CONSUMER
        values[":consumer"] = {"S": f"{choice.consumer}#"}
    return condition, values


def _milliseconds(moment: datetime) -> dict[str, str]:
    return {"N": str(int(moment.timestamp() * 1000))}
