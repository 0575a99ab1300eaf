"""Bounded scan: records that match a condition, among a limited number of the table's records.

DynamoDB has no index for these conditions, and bills every record that it reads. So the result says
how many were read, and whether there are more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from once.ops.dedup_records.dedup_table import Item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class BoundedScan:
    """Result of a bounded scan.

    Attributes:
        items: the matching records, in no order.
        read: number of records that were read.
        complete: whether these were all records of the table.
    """

    items: list[Item]
    read: int
    complete: bool


def scan_some(
    dynamodb: "DynamoDBClient",
    table: str,
    condition: str,
    values: Mapping[str, Any],
    *,
    most: int,
    names: Mapping[str, str] | None = None,
) -> BoundedScan:
    """Read at most so many records of a table, eventually consistent.

    Args:
        dynamodb: a DynamoDB client.
        table: the table.
        condition: a filter expression.
        values: its values.
        most: most records to read.
        names: its names of attributes.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: the table cannot be read.
    """
    items: list[Item] = []
    read, place = 0, {"ExpressionAttributeNames": names} if names else {}
    while read < most:
        answer: Any = dynamodb.scan(
            TableName=table,
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
