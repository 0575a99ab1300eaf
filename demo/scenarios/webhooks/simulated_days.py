"""Simulated days: moves stored records back in time, as if time had passed since their commit.

The dedup records and the captures become older by some hours: their times of commit, receipt and
expiry, and the day under which the index lists a capture. The clock of the functions stays right.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Item = Mapping[str, Any]
_ACTIONS = 100
_UNITS = {"committed_at": 1000, "received_at": 1000, "expires_at": 1}
"""The attributes that hold a time, with their parts of a second."""


def move_back(dynamodb: Any, tables: Sequence[str], hours: int) -> int:
    """Make every item of some tables older by some hours; return the number of items."""
    writes = [write for table in tables for write in _writes(dynamodb, table, hours)]
    for start in range(0, len(writes), _ACTIONS):
        dynamodb.transact_write_items(TransactItems=writes[start : start + _ACTIONS])
    return len(writes)


def _writes(dynamodb: Any, table: str, hours: int) -> Iterator[Mapping[str, Any]]:
    pages = dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
    for item in (item for page in pages for item in page["Items"]):
        yield {"Update": {"TableName": table, "Key": {"pk": item["pk"]}, **update(item, hours)}}


def update(item: Item, hours: int) -> Mapping[str, Any]:
    """Return the parameters of the update that makes an item older."""
    older: dict[str, Any] = {
        name: {"N": str(int(item[name]["N"]) - hours * 3600 * parts)}
        for name, parts in _UNITS.items()
        if name in item
    }
    if "day" in item:  # <endpoint>#<date>#<shard>
        endpoint, _, shard = item["day"]["S"].split("#")
        moment = datetime.fromtimestamp(int(older["received_at"]["N"]) / 1000, UTC)
        older["day"] = {"S": f"{endpoint}#{moment:%Y-%m-%d}#{shard}"}
    return {
        "UpdateExpression": "SET " + ", ".join(f"#{name} = :{name}" for name in older),
        "ExpressionAttributeNames": {f"#{name}": name for name in older},
        "ExpressionAttributeValues": {f":{name}": value for name, value in older.items()},
    }
