"""Views of a trace: a table, or JSON."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from once.ops.terminal.formatting import (
    NOT_READABLE,
    UNKNOWN,
    escape_controls,
    json_text,
)
from once.ops.trace.timeline_entries import EntryKind, TimelineEntry

_STYLES = {
    EntryKind.COMMITTED: "green",
    EntryKind.REFUSED: "yellow",
    EntryKind.PENDING: "yellow",
    EntryKind.QUARANTINED: "red",
    EntryKind.RETRIED: "yellow",
    EntryKind.DUPLICATE: "dim",
}


def timeline_table(key: str, entries: Sequence[TimelineEntry]) -> Table:
    """Return a timeline as a table, a row for each entry."""
    table = Table("time (UTC)", title=f"Trace of {key}", show_lines=True)
    for name in ("consumer", "event", "what happened"):
        table.add_column(name, overflow="fold")  # a provider's key must stay complete
    for entry in entries:
        table.add_row(
            _time(entry.at),
            entry.consumer,
            entry.event_type or UNKNOWN,
            _entry_text(entry),
        )
    return table


def timeline_json(key: str, entries: Sequence[TimelineEntry], notes: Sequence[str]) -> str:
    """Return a timeline as one JSON object."""
    return json_text({"key": key, "moments": [*map(_entry_json, entries)], "notes": [*notes]})


def _time(moment: datetime | None) -> str:
    if moment is None:
        return NOT_READABLE
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}"


def _entry_text(entry: TimelineEntry) -> Text:
    text = Text(entry.kind, style=_STYLES[entry.kind])
    for name, fact in entry.texts():
        text.append(f"\n{name}: {escape_controls(fact)}", style="default")
    return text


def _entry_json(entry: TimelineEntry) -> dict[str, Any]:
    details = {
        name: fact.isoformat(timespec="milliseconds") if isinstance(fact, datetime) else fact
        for name, fact in entry.details.items()
    }
    return {
        "time": entry.at and entry.at.isoformat(timespec="milliseconds"),
        "consumer": entry.consumer,
        "event_type": entry.event_type,
        "what": entry.kind,
        "key_hash": entry.key_hash,
        **details,
    }
