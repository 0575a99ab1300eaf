"""The state that a run leaves: rows in collections, whatever holds them."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from redelivery.boundary.aws import plain
from redelivery.boundary.call import Record
from redelivery.world.resources import Resources, items_of

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Collection:
    """Rows of one kind: a table's items, the messages to one queue, the requests to one URL.

    Attributes:
        key: the columns that identify a row; empty if rows have no identity.
        rows: each a flat mapping from the path of a value, as `lines.0.sku`, to the value.
        repeatable: whether equal rows count as one.
    """

    key: tuple[str, ...]
    rows: tuple[Row, ...]
    repeatable: bool = False


State = Mapping[str, Collection]


def state_of(resources: Resources, record: Record) -> State:
    """Read everything that a check compares."""
    subject = resources.subject
    collections = {
        table.name: Collection(
            table.key_names, tuple(dict(_flat(item, "")) for item in items_of(table))
        )
        for table in subject.tables
        if table.is_state
    }
    for store in subject.stores:
        collections[store.name] = Collection(store.key, tuple(map(flat, store.items())))
    for bucket in subject.buckets:
        collections[f"s3 {bucket}"] = Collection(
            ("Key",), tuple(_objects(bucket, resources.client("s3")))
        )
    sent: dict[str, list[Row]] = {}
    for one in record.sent:
        sent.setdefault(one.target, []).append(flat(one.content))
    for target, rows in sent.items():
        _, _, place = target.partition(" ")
        last = target.rpartition(" ")[2]
        repeatable = any(last == name or place.startswith(name) for name in subject.repeatable)
        collections[target] = Collection((), tuple(rows), repeatable)
    return collections


def flat(value: Mapping[str, Any]) -> Row:
    """Return a value as a flat row. Text that holds a JSON object is read as one."""
    return dict(_flat(plain(value), ""))


def _objects(bucket: str, s3: Any) -> Iterator[Row]:
    for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
        body = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
        text = body.decode("utf-8", "replace")
        content = text if _is_json(text) else hashlib.sha256(body).hexdigest()
        yield flat({"Key": entry["Key"], "body": content})


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, str) and _is_json(value):
        value = json.loads(value)
    if isinstance(value, dict) and value:
        for name, entry in value.items():
            yield from _flat(entry, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for index, entry in enumerate(value):
            yield from _flat(entry, f"{path}.{index}")
    else:
        yield path, value


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
