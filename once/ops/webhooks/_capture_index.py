"""Capture index: captures by time of receipt, newest first, without their bodies."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer

from once.events.dedup_key import key_hash
from once.ops.errors import OpsError
from once.ops.terminal.console import error_console
from once.webhooks.capture import BY_TIME, Capture, CaptureAttribute, day_parts

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MOST_READ = 100_000
"""Most entries of the index that one command reads."""

_PAGE = 100
_plain = TypeDeserializer().deserialize
_PERIOD = f"#day = :day AND {CaptureAttribute.RECEIVED_AT} BETWEEN :since AND :until"
_NAMES = {"#day": CaptureAttribute.DAY}
"""`day` is a reserved word of DynamoDB's expressions."""


@dataclass(slots=True)
class CaptureIndex:
    """The index of the captures.

    Attributes:
        dynamodb: a DynamoDB client.
        table: the table of captures.
        most: most entries that are read.
        read: number of entries that were read.
    """

    dynamodb: "DynamoDBClient"
    table: str
    most: int = MOST_READ
    read: int = field(default=0, init=False)

    def newest(
        self, endpoints: Sequence[str], since: datetime, until: datetime
    ) -> Iterator[Capture]:
        """Yield the captures of a period, newest first; reads pages as they are needed.

        Args:
            endpoints: the names of the endpoints.
            since: the first time.
            until: the time after the last one.

        Raises:
            OpsError: more than `most` entries would be read.
            botocore.exceptions.BotoCoreError, ClientError: DynamoDB fails.
        """
        first, last = _milliseconds(since), _milliseconds(until) - 1
        for day in _days(first, last):
            parts = [part for name in endpoints for part in day_parts(name, day)]
            pages = (self._part(part, first, last) for part in parts)
            yield from heapq.merge(*pages, key=lambda one: one.received_at, reverse=True)

    def _part(self, part: str, first: int, last: int) -> Iterator[Capture]:
        values = {":day": {"S": part}, ":since": {"N": str(first)}, ":until": {"N": str(last)}}
        start: dict[str, Any] = {}
        while True:
            answer = self.dynamodb.query(
                TableName=self.table,
                IndexName=BY_TIME,
                KeyConditionExpression=_PERIOD,
                ExpressionAttributeNames=_NAMES,
                ExpressionAttributeValues=values,
                ScanIndexForward=False,
                Limit=_PAGE,
                **start,
            )
            yield from self._captures(answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _captures(self, items: Sequence[Mapping[str, Any]]) -> Iterator[Capture]:
        self.read += len(items)
        if self.read > self.most:
            raise OpsError(
                f"more than {self.most} captures would be read: narrow the search with --since, "
                "--until or --endpoint"
            )
        for item in items:
            capture = read_capture(item)
            if capture is None:
                name = key_hash(str(_plain(item[CaptureAttribute.PK])))
                error_console.print(
                    f"left out: the capture with the key hash {name} cannot be read by this "
                    "version of `once`",
                    soft_wrap=True,
                )
            else:
                yield capture


def read_capture(item: Mapping[str, Any]) -> Capture | None:
    """Return the capture in an item of DynamoDB's JSON form; None if another version wrote it."""
    try:
        capture = Capture.read({name: _plain(value) for name, value in item.items()})
        _moment(capture.received_at), _moment(capture.expires_at * 1000)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
    return capture


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _days(first: int, last: int) -> Iterator[int]:
    """Yield a time on each day in UTC, the last day first."""
    day = _moment(last)
    while day.date() >= _moment(first).date():
        yield _milliseconds(day)
        day -= timedelta(days=1)
