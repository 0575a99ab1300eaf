"""Audit trail: the changes of operators, each joined from its entries in the operator log."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from once.errors import UNREADABLE
from once.ops.aws.clients import client
from once.ops.terminal.formatting import json_text
from once.ops.terminal.timestamps import parse_timestamp

MOST_CHANGES = 200
_MOST_EVENTS = 2_000
"""Most entries that are read of one day."""
_CLOCK_MARGIN = timedelta(minutes=5)
"""An entry has the time of the machine that wrote it."""


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change of an operator.

    Attributes:
        id: identifies it in the log.
        at: when it began, or ended if its first entry was not read; None if not readable.
        who: the ARN of the operator.
        command: the command, such as `dlq redrive`.
        arguments: its arguments as texts.
        why: the operator's reason, if there is one.
        outcome: `done`, `failed` or `stopped`; None without an entry of its outcome.
        counts: numbers of its outcome, without zeros.
        message_ids: ids of the messages that were sent or deleted; the first 1000.
    """

    id: str
    at: datetime | None
    who: str
    command: str
    arguments: Mapping[str, str]
    why: str | None
    outcome: str | None
    counts: Mapping[str, str]
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuditTrail:
    """Changes, the newest first.

    Attributes:
        changes: the changes.
        cut: whether there are more of them than were read.
        unreadable: number of entries in another form, such as those of another tool.
    """

    changes: list[LoggedChange]
    cut: bool
    unreadable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailFilter:
    """Selects changes.

    Attributes:
        who: a part of the operator's ARN; empty for all.
        command: the command; empty for all.
        days: number of days that are read.
    """

    who: str = ""
    command: str = ""
    days: int = 1

    def matches(self, change: LoggedChange) -> bool:
        """Tell whether a change matches."""
        return self.who in change.who and self.command in ("", change.command)


def read_trail(group: str, chosen: TrailFilter, now: datetime) -> AuditTrail:
    """Read the operator log, day by day from the newest, until enough changes are found.

    Args:
        group: the log group.
        chosen: selects changes.
        now: the time up to which it is read.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: the log cannot be read.
    """
    logs, entries, unreadable, cut = client("logs"), list[dict[str, Any]](), 0, False
    found: list[LoggedChange] = []
    for start, end in _days(now, chosen.days):
        pages = logs.get_paginator("filter_log_events").paginate(
            logGroupName=group,
            startTime=_milliseconds(start),
            endTime=_milliseconds(end) - 1,
            PaginationConfig={"MaxItems": _MOST_EVENTS},
        )
        events = [event["message"] for page in pages for event in page["events"]]
        read = [entry for entry in map(_entry, events) if entry]
        unreadable += len(events) - len(read)
        entries += read
        found = [change for change in _joined(entries) if chosen.matches(change)]
        cut = len(events) == _MOST_EVENTS or len(found) > MOST_CHANGES
        if cut:
            break
    return AuditTrail(found[:MOST_CHANGES], cut, unreadable)


def _days(now: datetime, number: int) -> Iterator[tuple[datetime, datetime]]:
    """Yield the begin and end of each day, the newest first."""
    end = now + _CLOCK_MARGIN
    for _ in range(number):
        yield end - timedelta(days=1), end
        end -= timedelta(days=1)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _entry(message: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(message)
    except UNREADABLE:
        return None
    has_form = isinstance(entry, dict) and isinstance(entry.get("change"), str)
    return entry if has_form and entry.get("phase") in {"intent", "outcome"} else None


def _joined(entries: Iterable[dict[str, Any]]) -> list[LoggedChange]:
    """Return the changes of entries, the newest first."""
    phases: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in entries:
        phases.setdefault(entry["change"], {})[entry["phase"]] = entry
    changes = [_change(name, **found) for name, found in phases.items()]
    first = datetime.min.replace(tzinfo=UTC)
    return sorted(changes, key=lambda change: change.at or first, reverse=True)


def _change(
    name: str, intent: dict[str, Any] | None = None, outcome: dict[str, Any] | None = None
) -> LoggedChange:
    facts, end = intent or outcome or {}, outcome or {}
    why = facts.get("why")
    return LoggedChange(
        id=name,
        at=parse_timestamp(str(facts.get("at"))),
        who=str(facts.get("who")),
        command=str(facts.get("command")),
        arguments=_texts(facts.get("arguments")),
        why=None if why is None else str(why),
        outcome=str(end.get("outcome")) if end else None,
        counts=_texts(end.get("counts")),
        message_ids=tuple(map(str, _list(end.get("message_ids")))),
    )


def _texts(values: object) -> Mapping[str, str]:
    if not isinstance(values, dict):
        return {}
    return {
        name: value if isinstance(value, str) else json_text(value)
        for name, value in values.items()
        if value
    }


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
