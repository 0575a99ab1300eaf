"""Durations as text: `90`, `90s`, `15m`, `12h`, `14d`."""

import re

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_FORM = re.compile(r"(\d{1,9})([smhd]?)")


def parse_duration(text: str) -> int:
    """Return a duration in seconds.

    Raises:
        ValueError: the text is no duration, or it is 0.
    """
    match = _FORM.fullmatch(text)
    if not match or not int(match[1]):
        raise ValueError("write a number above 0 and a unit, for example 90s, 15m, 12h or 14d")
    return int(match[1]) * _SECONDS[match[2]]
