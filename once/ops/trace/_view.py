"""How a trace is shown: as a table, or as JSON."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from once.ops.status import UNKNOWN
from once.ops.terminal.formatting import NOT_READABLE, harmless, json_text, shown_time
from once.ops.trace._timeline_entries import Fact, Moment, What

_STYLES = {
    What.COMMITTED: "green",
    What.REFUSED: "yellow",
    What.PENDING: "yellow",
    What.QUARANTINED: "red",
    What.RETRIED: "yellow",
    What.DUPLICATE: "dim",
}
_IN_JSON_ONLY = frozenset({"key"})


def as_table(key: str, moments: Sequence[Moment]) -> Table:
    """Return a trace as a table, a row for each moment."""
    table = Table("time (UTC)", title=f"Trace of {key}", show_lines=True)
    for name in ("consumer", "event", "what happened"):
        table.add_column(name, overflow="fold")  # a provider's key is to be copied whole
    for moment in moments:
        table.add_row(
            _time(moment.at),
            moment.consumer,
            moment.event_type or UNKNOWN,
            _told(moment),
        )
    return table


def as_json(key: str, moments: Sequence[Moment], notes: Sequence[str]) -> str:
    """Return a trace as one JSON object."""
    return json_text({"key": key, "moments": [*map(_plain, moments)], "notes": [*notes]})


def _time(moment: datetime | None) -> str:
    if moment is None:
        return NOT_READABLE
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}"


def _told(moment: Moment) -> Text:
    text = Text(moment.what, style=_STYLES[moment.what])
    for name, fact in moment.facts.items():
        if name not in _IN_JSON_ONLY:
            text.append(f"\n{name.replace('_', ' ')}: {harmless(_shown(fact))}", style="default")
    return text


def _shown(fact: Fact) -> str:
    match fact:
        case datetime():
            return shown_time(fact)
        case list():
            return ", ".join(fact)
        case _:
            return str(fact)


def _plain(moment: Moment) -> dict[str, Any]:
    facts = {
        name: fact.isoformat(timespec="milliseconds") if isinstance(fact, datetime) else fact
        for name, fact in moment.facts.items()
    }
    return {
        "time": moment.at and moment.at.isoformat(timespec="milliseconds"),
        "consumer": moment.consumer,
        "event_type": moment.event_type,
        "what": moment.what,
        "key_hash": moment.key_hash,
        **facts,
    }
