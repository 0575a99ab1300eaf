"""Stored dedup record: read whole, or attribute by attribute."""

from contextlib import suppress
from datetime import datetime
from typing import Any

from once.commit.dedup_record import StoredRecord
from once.ops.dedup_records.dedup_table import Item
from once.ops.terminal.formatting import NOT_READABLE
from once.ops.terminal.timestamps import from_epoch_seconds
from once.schema import Record

_UNITS = {
    Record.COMMITTED_AT: 1000,
    Record.EXPIRES_AT: 1,
    Record.LEASE_UNTIL: 1000,
    Record.KEY_EXPIRES_AT: 1,
}
"""Attributes that are times, with their units per second."""


class UnreadableRecord(Exception):
    """A record that this version of `once` cannot read; the text says why."""


def read_record(item: Item) -> StoredRecord:
    """Read a whole record, with all of its times in range.

    Raises:
        UnreadableRecord: an attribute is missing, or its value is invalid.
    """
    if names := unreadable_times(item):
        raise UnreadableRecord(f"{', '.join(names)}: no point in time")
    try:
        return StoredRecord.read(item)
    except KeyError as error:
        raise UnreadableRecord(f"{error} is missing, or of another type") from None
    except ValueError as error:
        raise UnreadableRecord(str(error)) from None


def text_attribute(item: Item, name: str) -> str | None:
    """Return a text attribute; `NOT_READABLE` if it is not a text, None if missing."""
    value: dict[str, Any] | None = item.get(name)
    return None if value is None else value.get("S", NOT_READABLE)


def time_attribute(item: Item, name: str) -> datetime | None:
    """Return a time attribute; None if it is not readable, or missing."""
    with suppress(KeyError, ValueError):
        return from_epoch_seconds(int(item[name]["N"]) / _UNITS[name])
    return None


def unreadable_times(item: Item) -> list[str]:
    """Return the names of the time attributes that cannot be read."""
    return [name for name in _UNITS if name in item and time_attribute(item, name) is None]
