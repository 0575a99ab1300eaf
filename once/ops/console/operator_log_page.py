"""Page of the operator log: each change with its operator, time, reason and outcome.

Each change is joined from its entries in the operator log.
"""

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from once.errors import UNREADABLE
from once.ops.aws.clients import client
from once.ops.console import rendering
from once.ops.console.state import max_age, state_of
from once.ops.terminal import json_text, parse_timestamp

MAX_CHANGES = 60
_MAX_EVENTS = 2_000
"""Maximum number of entries that are read of one day."""
_CLOCK_MARGIN = timedelta(minutes=5)
"""An entry has the time of the machine that wrote it."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_PERIODS = (1, 7, 30, 365)


def operator_log_page(request: rendering.Request) -> rendering.Response:
    given, state = request.query_params, state_of(request)
    who, command = given.get("who", "").strip(), given.get("command", "").strip()
    asked = given.get("days", "")
    days = int(asked) if asked in map(str, _PERIODS) else 7
    reading = state.readings.latest(
        ("operator-log", who, command, days),
        lambda: read_changes(state.deployment.operator_log, days, who, command),
        max_age(request),
    )
    changes, is_cut, unreadable = reading.value
    return rendering.page(
        request,
        "operator_log.html",
        reading=reading,
        changes=changes,
        is_cut=is_cut,
        unreadable=unreadable,
        chosen={"who": who, "command": command, "days": days},
        periods=_PERIODS,
        commands=sorted({change["command"] for change in changes} | {command} - {""}),
    )


def read_changes(
    group: str, days: int, who: str, command: str
) -> tuple[list[dict[str, Any]], bool, int]:
    """Read the operator log, day by day from the newest, until enough changes are found.

    Returns the changes of these operators and this command, the newest first; whether there are
    more; and the number of entries in another form, such as those of another tool.
    """
    logs, end = client("logs"), datetime.now(UTC) + _CLOCK_MARGIN
    phases: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    changes: list[dict[str, Any]] = []
    unreadable = 0
    for _ in range(days):
        start = end - timedelta(days=1)
        pages = logs.get_paginator("filter_log_events").paginate(
            logGroupName=group,
            startTime=int(start.timestamp() * 1000),
            endTime=int(end.timestamp() * 1000) - 1,
            PaginationConfig={"MaxItems": _MAX_EVENTS},
        )
        end = start
        events = [event["message"] for answer in pages for event in answer["events"]]
        for entry in map(_entry, events):
            if entry is None:
                unreadable += 1
            else:
                phases[entry["change"]][entry["phase"]] = entry
        found = [_change(**entries) for entries in phases.values()]
        found.sort(key=lambda change: change["at"] or _NEVER, reverse=True)
        changes = [one for one in found if who in one["who"] and command in ("", one["command"])]
        if len(events) == _MAX_EVENTS or len(changes) > MAX_CHANGES:
            return changes[:MAX_CHANGES], True, unreadable
    return changes, False, unreadable


def _entry(message: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(message)
    except UNREADABLE:
        return None
    has_form = isinstance(entry, dict) and isinstance(entry.get("change"), str)
    return entry if has_form and entry.get("phase") in {"intent", "outcome"} else None


def _change(
    intent: dict[str, Any] | None = None, outcome: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a change as its page shows it; its outcome is None if no entry tells it."""
    facts, end = intent or outcome or {}, outcome or {}
    ids = end.get("message_ids")
    return {
        "id": facts.get("change"),
        "at": parse_timestamp(str(facts.get("at"))),
        "who": str(facts.get("who")),
        "command": str(facts.get("command")),
        "arguments": _texts(facts.get("arguments")),
        "why": str(facts.get("why") or ""),
        "outcome": str(end.get("outcome")) if end else None,
        "counts": _texts(end.get("counts")),
        "message_ids": [*map(str, ids)] if isinstance(ids, list) else [],
    }


def _texts(values: object) -> dict[str, str]:
    """Return the values that are set, as texts."""
    return {
        name: value if isinstance(value, str) else json_text(value)
        for name, value in (values.items() if isinstance(values, dict) else ())
        if value
    }
