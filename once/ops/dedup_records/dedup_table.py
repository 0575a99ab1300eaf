"""Dedup table: reads records by key, also those on the items of business tables.

Nothing here scans a table.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import uniform
from typing import TYPE_CHECKING, Any, Self

from once.commit.dedup_record import record_key
from once.events.dedup_key import consumer_of
from once.ops.aws.clients import ATTEMPTS, BACKOFF_SECONDS
from once.ops.aws.deployment import Deployment
from once.ops.dedup_records.item_records import (
    ItemAddress,
    ItemTable,
    item_addresses,
    item_tables,
)
from once.ops.errors import OpsError
from once.schema import Limits

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = Mapping[str, Any]
"""A dedup record, in DynamoDB's own JSON form."""


@dataclass(frozen=True, slots=True)
class DedupRecordReader:
    """The dedup records of a deployment.

    Attributes:
        dynamodb: a DynamoDB client.
        name: the table of dedup records.
        items: the tables of the consumers with item dedup, by the consumers' identities.

    Every method raises botocore.exceptions.BotoCoreError or ClientError if DynamoDB fails.
    """

    dynamodb: "DynamoDBClient"
    name: str
    items: Mapping[str, ItemTable] = field(default_factory=dict)

    @classmethod
    def of(cls, dynamodb: "DynamoDBClient", deployment: Deployment) -> Self:
        """Return the reader of a deployment's records."""
        return cls(dynamodb, deployment.dedup_table, item_tables(deployment))

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
        on_items = [key for key in possible if consumer_of(key) in self.items]
        in_table = [record_key(key) for key in possible if consumer_of(key) not in self.items]
        return [*self._read(self.name, in_table), *self._records_on_items(on_items)]

    def _records_on_items(self, keys: Iterable[str]) -> Iterator[Item]:
        addresses: dict[ItemTable, list[ItemAddress]] = defaultdict(list)
        for address in item_addresses(keys, self.items):
            addresses[address.table].append(address)
        for table, own in addresses.items():
            names = dict.fromkeys((*table.key, *(each.attribute for each in own)))
            found = self._read(table.name, _distinct(each.key for each in own), tuple(names))
            by_key = {tuple(item[name]["S"] for name in table.key): item for item in found}
            records = (each.record(by_key.get(each.values, {})) for each in own)
            yield from (record for record in records if record is not None)

    def _read(self, table: str, keys: list[Any], attributes: Sequence[str] = ()) -> Iterator[Item]:
        for start in range(0, len(keys), Limits.BATCH_GET_KEYS):
            batch = keys[start : start + Limits.BATCH_GET_KEYS]
            yield from self._read_batch(table, batch, attributes)

    def _read_batch(self, table: str, keys: list[Any], attributes: Sequence[str]) -> Iterator[Item]:
        names = {f"#n{number}": name for number, name in enumerate(attributes)}
        projection = {
            "ProjectionExpression": ",".join(names),
            "ExpressionAttributeNames": names,
        }
        request: Any = {
            table: {"Keys": keys, "ConsistentRead": True, **(projection if names else {})}
        }
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(uniform(0, BACKOFF_SECONDS * 2**attempt))
            answer: Any = self.dynamodb.batch_get_item(RequestItems=request)
            yield from answer["Responses"].get(table, [])
            if not (request := answer.get("UnprocessedKeys")):
                return
        raise OpsError(
            f"DynamoDB has no capacity to read records of {table}: run the command again later"
        )


def _distinct(keys: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return keys without repetition, which DynamoDB refuses: two records can be on one item."""
    found: dict[str, dict[str, Any]] = {str(key): key for key in keys}
    return list(found.values())
