"""Dedup table: reads records by key. Nothing here scans it."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import uniform
from typing import TYPE_CHECKING, Any

from once.commit.dedup_record import record_key
from once.ops.aws.batch_calls import ATTEMPTS, BACKOFF_SECONDS
from once.ops.errors import OpsError
from once.schema import Limits

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = Mapping[str, Any]
"""A dedup record, in DynamoDB's own JSON form."""


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
            key
            for key in dict.fromkeys(keys)
            if 0 < len(key.encode()) <= Limits.PARTITION_KEY_BYTES
        ]
        starts = range(0, len(possible), Limits.BATCH_GET_KEYS)
        batches = (possible[start : start + Limits.BATCH_GET_KEYS] for start in starts)
        return [item for batch in batches for item in self._read(batch)]

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
