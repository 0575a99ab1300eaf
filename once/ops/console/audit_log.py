"""Audit log: who changed what, when, why and with which outcome.

Each change is joined from its entries in the operator log.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from once.errors import UNREADABLE
from once.ops.aws.clients import client
from once.ops.console import rendering, state
from once.ops.terminal import json_text, parse_timestamp

MOST_CHANGES = 200
_MOST_EVENTS = 2_000
"""Most entries that are read of one day."""
_CLOCK_MARGIN = timedelta(minutes=5)
"""An entry has the time of the machine that wrote it."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_PERIODS = (1, 7, 30, 365)


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change of an operator.

    Attributes:
        at: when it began, or ended if its first entry was not read; None if not readable.
        who: the ARN of the operator.
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


def audit_log_page(request: rendering.Request) -> rendering.Response:
    """Return the page of the operator log's changes."""
    given = request.query_params
    who, command = given.get("who", "").strip(), given.get("command", "").strip()
    asked = given.get("days", "")
    days = int(asked) if asked in map(str, _PERIODS) else 7
    changes, is_cut, unreadable = read_changes(
        state.state_of(request).deployment.operator_log,
        days,
        lambda change: who in change.who and command in ("", change.command),
    )
    return rendering.page(
        request,
        "audit_log.html",
        changes=changes,
        is_cut=is_cut,
        unreadable=unreadable,
        chosen={"who": who, "command": command, "days": days},
        periods=_PERIODS,
        commands=sorted({change.command for change in changes} | {command} - {""}),
    )


def read_changes(
    group: str, days: int, matches: Callable[[LoggedChange], bool]
) -> tuple[list[LoggedChange], bool, int]:
    """Read the operator log, day by day from the newest, until enough changes are found.

    Returns:
        The changes, the newest first; whether there are more than were read; and the number of
        entries in another form, such as those of another tool.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: the log cannot be read.
    """
    logs, end = client("logs"), datetime.now(UTC) + _CLOCK_MARGIN
    phases: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    changes: list[LoggedChange] = []
    unreadable = 0
    for _ in range(days):
        start = end - timedelta(days=1)
        pages = logs.get_paginator("filter_log_events").paginate(
            logGroupName=group,
            startTime=int(start.timestamp() * 1000),
            endTime=int(end.timestamp() * 1000) - 1,
            PaginationConfig={"MaxItems": _MOST_EVENTS},
        )
        end = start
        events = [event["message"] for answer in pages for event in answer["events"]]
        for entry in map(_entry, events):
            if entry is None:
                unreadable += 1
            else:
                phases[entry["change"]][entry["phase"]] = entry
        found = [_change(name, **entries) for name, entries in phases.items()]
        found.sort(key=lambda change: change.at or _NEVER, reverse=True)
        changes = [change for change in found if matches(change)]
        if len(events) == _MOST_EVENTS or len(changes) > MOST_CHANGES:
            return changes[:MOST_CHANGES], True, unreadable
    return changes, False, unreadable


def _entry(message: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(message)
    except UNREADABLE:
        return None
    has_form = isinstance(entry, dict) and isinstance(entry.get("change"), str)
    return entry if has_form and entry.get("phase") in {"intent", "outcome"} else None


def _change(
    name: str, intent: dict[str, Any] | None = None, outcome: dict[str, Any] | None = None
) -> LoggedChange:
    facts, end = intent or outcome or {}, outcome or {}
    why, ids = facts.get("why"), end.get("message_ids")
    return LoggedChange(
        id=name,
        at=parse_timestamp(str(facts.get("at"))),
        who=str(facts.get("who")),
        command=str(facts.get("command")),
        arguments=_texts(facts.get("arguments")),
        why=None if why is None else str(why),
        outcome=str(end.get("outcome")) if end else None,
        counts=_texts(end.get("counts")),
        message_ids=tuple(map(str, ids)) if isinstance(ids, list) else (),
    )


def _texts(values: object) -> Mapping[str, str]:
    return {
        name: value if isinstance(value, str) else json_text(value)
        for name, value in (values.items() if isinstance(values, dict) else ())
        if value
    }
