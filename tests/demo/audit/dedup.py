"""Dedup records as the library writes them: the audit's own idea of them must fit."""

from typing import Any

from once.commit.dedup_record import record_put
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key
from once.handlers.transaction import Identity, Transaction
from once.settings import Settings

THEN = 1_800_000_000
"""When everything was committed, in seconds since the epoch."""


def dedup_record(consumer: str, event_type: str, name: str, *published: str) -> dict[str, Any]:
    """Return the record of an event that publishes others; `name` is its order's."""
    event = CloudEvent(id=name, source=f"/{event_type}", type=event_type, data=None)
    identity = Identity(record_name(consumer, event_type, name), "fingerprint")
    tx = Transaction(event, identity, tables={}, publishes=published, read=lambda *_: None)
    for published_type in published:
        tx.publish(published_type, {"order_id": name})
    return dict(record_put(tx, _settings(consumer), THEN)["Put"]["Item"])


def record_name(consumer: str, event_type: str, name: str) -> str:
    """Return the record's partition key."""
    event = CloudEvent(id=name, source=f"/{event_type}", type=event_type, data=None)
    return Key.event().of(event, fingerprint="", consumer=consumer)


def _settings(consumer: str) -> Settings:
    return Settings(
        consumer=consumer,
        event_types=(),
        queue_url="",
        dead_letter_url="",
        dedup_table="dedup",
        tables={},
        dedup_window_seconds=1,
    )
