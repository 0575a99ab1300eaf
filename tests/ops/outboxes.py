"""Dedup records with events, as consumers commit them, and how `outbox republish` tells of them."""

import json
from typing import Any

from once.events.dedup_key import consumer_of, key_hash
from once.events.outgoing import event_id_of
from tests.ops.support import Cloud

REPUBLISH = ("outbox", "republish", "--since")


def event(pk: str, position: int = 0, event_type: str = "order.placed", **more: Any) -> str:
    """An event as the record's own consumer commits it."""
    head = {"id": event_id_of(key_hash(pk), position), "source": f"/once/{consumer_of(pk)}"}
    return json.dumps({**head, "type": event_type, **more})


def published(cloud: Cloud) -> set[str]:
    """The ids of the events that reached a queue which subscribes by their type."""
    return {json.loads(body)["id"] for body in cloud.take("orders")}


def ids(*pks: str) -> set[str]:
    """The ids of these records' first events."""
    return {event_id_of(key_hash(pk), 0) for pk in pks}


def numbers(output: str) -> dict[str, str]:
    """The summary's rows."""
    cells = [line.strip("│").split("│") for line in output.splitlines() if line.startswith("│")]
    return {name.strip(): number.strip() for name, number in cells}
