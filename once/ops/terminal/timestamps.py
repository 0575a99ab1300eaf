"""Timestamps: parsing of times in options (a date, a date-time, an age), events and records."""

import re
from datetime import UTC, datetime, timedelta

from typer import BadParameter

from once.events.cloud_event import CloudEvent

TIME_FORMATS = (
    "a date (2026-07-30), a date-time (2026-07-30T14:00, in UTC unless it has an offset), or an "
    "age (90m, 26h, 2d)"
)

_AGE = re.compile(r"(?P<number>\d{1,9})(?P<unit>[mhd])", re.ASCII)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def event_time(event: CloudEvent) -> datetime | None:
    """Return the time of an event, set by its producer; None if missing or not readable."""
    return parse_timestamp(event.time or "")


def parse_timestamp(text: str) -> datetime | None:
    """Return the point in time of an ISO 8601 date-time, in UTC unless it has an offset.

    Returns:
        The point in time in UTC; None if the text is not a date-time, or not a year from 1 to 9999.
    """
    try:
        return _in_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def from_epoch_seconds(seconds: float) -> datetime | None:
    """Return the point in time of seconds since the epoch; None if out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def parse_time_option(text: str, *, now: datetime, option: str) -> datetime:
    """Return the point in time of an option, with its offset from UTC.

    Args:
        text: an ISO 8601 date or date-time, in UTC unless it has an offset; or an age, in minutes,
            hours or days.
        now: the time that an age counts back from.
        option: the option's name for the error, such as `--since`.

    Raises:
        typer.BadParameter: the text is neither, or out of range.
    """
    try:
        return _read(text.strip(), now)
    except (ValueError, OverflowError):
        message = f"{text!r} is no point in time: give {TIME_FORMATS}"
        raise BadParameter(message, param_hint=option) from None


def parse_age_option(text: str, *, option: str) -> timedelta:
    """Return the age of an option, in minutes, hours or days.

    Raises:
        typer.BadParameter: the text is no age.
    """
    if age := _AGE.fullmatch(text.strip()):
        return _age(age)
    raise BadParameter(f"{text!r} is no age: give one such as 90m, 26h, 2d", param_hint=option)


def _age(found: re.Match[str]) -> timedelta:
    return int(found["number"]) * _UNITS[found["unit"]]


def _read(text: str, now: datetime) -> datetime:
    if age := _AGE.fullmatch(text):
        return now - _age(age)
    return _in_utc(datetime.fromisoformat(text))


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
