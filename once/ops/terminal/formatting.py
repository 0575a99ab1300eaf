"""Formatting of times, ages and untrusted texts for a terminal."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

NOT_READABLE = "not-readable"
"""Shown for a value that exists and cannot be read."""

UNKNOWN = "–"
"""Shown for a value that is not known."""

_DAY, _HOUR, _MINUTE = 86400, 3600, 60


def format_time(moment: datetime) -> str:
    """Return a point in time as text, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_epoch_seconds(seconds: float) -> str:
    """Return a time in seconds since the epoch as text, in UTC."""
    return format_time(datetime.fromtimestamp(seconds, UTC))


def format_age(age: timedelta) -> str:
    """Return an age in its largest unit: `3 d`, `5 h`, `12 min`, `7 s`."""
    seconds = max(0, int(age.total_seconds()))
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def json_text(value: Any) -> str:
    """Return a value as JSON without control characters; `json` itself escapes all but DEL."""
    return json.dumps(value).replace("\x7f", "\\u007f")


def single_line(text: str) -> str:
    """Return a text with every unprintable character escaped, line breaks included."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def escape_controls(text: str) -> str:
    """Return a text with every unprintable character escaped, except line breaks and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
