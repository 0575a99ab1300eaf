"""Dedup records with events, as consumers commit them, for `outbox republish`."""

import json
import time
from typing import Any

from once.events.identity import consumer_of, key_hash
from once.events.outgoing import event_id_of
from tests.ops.cloud import Cloud
from tests.ops.shop import DAY, HOUR

REPUBLISH = ("outbox", "republish", "--yes", "--since")


def event(pk: str, position: int = 0, event_type: str = "order.placed", **more: Any) -> str:
    """An event as the record's own consumer commits it."""
    head = {"id": event_id_of(key_hash(pk), position), "source": f"/once/{consumer_of(pk)}"}
    return json.dumps({**head, "type": event_type, **more})


def commit(
    cloud: Cloud,
    pk: str,
    *events: str,
    age: float = 1,
    expires_in: float = 45 * DAY / HOUR,
    outbox: str | None = None,
    **more: Any,
) -> None:
    """Write a dedup record; age and expiry in hours."""
    now = time.time()
    text = outbox or f"[{','.join(events)}]"
    attributes = {"outbox": {"S": text}} if events or outbox else {}
    cloud.put_record(pk, now - age * HOUR, now + expires_in * HOUR, **attributes, **more)


def commit_each(cloud: Cloud, *pks: str, **options: Any) -> None:
    """Write records with one event each."""
    for pk in pks:
        commit(cloud, pk, event(pk), **options)


def published(cloud: Cloud) -> set[str]:
    """The ids of the events that reached a queue which subscribes by their type."""
    return {json.loads(body)["id"] for body in cloud.take("orders")}


def ids(*pks: str) -> set[str]:
    """The ids of these records' first events."""
    return {event_id_of(key_hash(pk), 0) for pk in pks}
