"""Dedup table: finds records by key, by part of a key, or by the SHA-256 of a key."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import uniform
from typing import TYPE_CHECKING, Any

from once.commit.dedup_record import record_key
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key, key_hash
from once.ops.aws.batch_calls import ATTEMPTS, BACKOFF_SECONDS
from once.ops.errors import OpsError
from once.schema import Limits, Record

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = Mapping[str, Any]
"""A dedup record, in DynamoDB's own JSON form."""

PageCallback = Callable[[int], object]
"""Called after each page with the number of records scanned."""

_MENTIONS = f"contains({Record.PK}, :key) OR contains({Record.PK}, :part)"
_PUBLISHES = f" OR contains({Record.OUTBOX}, :text)"


@dataclass(frozen=True, slots=True)
class DedupRecordReader:
    """The table of dedup records.

    Every method raises botocore.exceptions.BotoCoreError or ClientError if DynamoDB fails.
    """

    dynamodb: "DynamoDBClient"
    name: str

    def get(self, keys: Iterable[str]) -> list[Item]:
        """Return the existing records of these keys.

        Raises:
            OpsError: DynamoDB has no capacity to read them.
        """
        possible = [
            key for key in dict.fromkeys(keys) if len(key.encode()) <= Limits.PARTITION_KEY_BYTES
        ]
        starts = range(0, len(possible), Limits.BATCH_GET_KEYS)
        batches = (possible[start : start + Limits.BATCH_GET_KEYS] for start in starts)
        return [item for batch in batches for item in self._read(batch)]

    def scan_for_key(self, key: str, on_page: PageCallback) -> list[Item]:
        """Scan the whole table for records with this key, or that publish an event with it.

        Args:
            key: an event's id, a business key, or part of a dedup key. If it is a whole part of a
                dedup key or a whole text in an event, only such records are returned: `order-1`
                does not find `order-10`.
            on_page: called after each page.
        """
        values = {
            ":key": {"S": key},
            ":part": {"S": _as_part(key)},
            ":text": {"S": json.dumps(key)},
        }
        found: list[Item] = []
        for page in self._pages(
            FilterExpression=_MENTIONS + _PUBLISHES, ExpressionAttributeValues=values
        ):
            found += page["Items"]
            on_page(page["ScannedCount"])
        return [item for item in found if _names(item, key)] or found

    def scan_for_hash(self, expected: str, on_page: PageCallback) -> list[Item]:
        """Scan the whole table for the record whose key has this SHA-256, in hex."""
        found: list[str] = []
        for page in self._pages(ProjectionExpression=Record.PK):
            keys = (item[Record.PK]["S"] for item in page["Items"])
            found += [key for key in keys if key_hash(key) == expected]
            on_page(page["ScannedCount"])
        return self.get(found)

    def _pages(self, **options: Any) -> Iterator[Any]:
        paginator = self.dynamodb.get_paginator("scan")
        yield from paginator.paginate(TableName=self.name, ConsistentRead=True, **options)

    def _read(self, keys: list[str]) -> Iterator[Item]:
        request: Any = {
            self.name: {"Keys": [record_key(key) for key in keys], "ConsistentRead": True}
        }
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(uniform(0, BACKOFF_SECONDS * 2**attempt))
            answer: Any = self.dynamodb.batch_get_item(RequestItems=request)
            yield from answer["Responses"].get(self.name, [])
            if not (request := answer.get("UnprocessedKeys")):
                return
        raise OpsError(
            f"DynamoDB has no capacity to read records of {self.name}: run the command again later"
        )


def _as_part(text: str) -> str:
    """Return a text in the escaped form that it has within a dedup key."""
    event = CloudEvent(id=text, source="", type="")
    return Key.event().of(event, fingerprint="", consumer="").rpartition("#")[2]


def _names(item: Item, key: str) -> bool:
    part, outbox = _as_part(key), item.get(Record.OUTBOX, {}).get("S", "")
    parts = {part, f"str:{part}", f"int:{part}"}
    return not parts.isdisjoint(item[Record.PK]["S"].split("#")) or json.dumps(key) in outbox
