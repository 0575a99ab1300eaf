"""Item record: the dedup record as one attribute of the item that the handler writes.

Its attribute is named for the consumer and the event type, so that several of them can write one
item; the item's own key is the event's. The attribute holds what a record of the dedup table holds
besides its key and its event type.
"""

from collections.abc import Mapping
from typing import Any

from once.settings import ITEM_RECORD_PREFIX

NAME, EXPIRED_BEFORE = "#once_record", ":once_expired_before"

NEW_OR_EXPIRED = f"(attribute_not_exists({NAME}) OR {NAME}.expires_at < {EXPIRED_BEFORE})"
"""Condition of a write: the item has no record of this consumer and event type, or a forgotten one.

As in the dedup table, the condition is the window."""


def item_record_name(consumer: str, event_type: str) -> str:
    """Return the name of the attribute that holds a consumer's record of an event type."""
    return f"{ITEM_RECORD_PREFIX}{consumer}#{event_type}"


def is_item_record(attribute: str) -> bool:
    """Return whether an attribute holds a dedup record of any consumer."""
    return attribute.startswith(ITEM_RECORD_PREFIX)


def item_record(item: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return the record in an attribute of an item, as attributes in DynamoDB's JSON; None if none.

    A value that is no record is returned without attributes, so that reading it fails.
    """
    value = item.get(name)
    return None if value is None else dict(value.get("M", {}))
