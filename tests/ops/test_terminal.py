"""Times in options: a date, a date-time or an age."""

from datetime import UTC, datetime

import pytest
from typer import BadParameter

from once.ops.terminal import parse_time_option

NOW = datetime(2026, 7, 30, 12, tzinfo=UTC)


def read(text: str) -> str:
    return parse_time_option(text, now=NOW, option="--since").astimezone(UTC).isoformat()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90m", "2026-07-30T10:30:00+00:00"),
        ("26h", "2026-07-29T10:00:00+00:00"),
        (" 2d ", "2026-07-28T12:00:00+00:00"),
        ("2026-07-28", "2026-07-28T00:00:00+00:00"),
        ("2026-07-28T09:15", "2026-07-28T09:15:00+00:00"),
        ("2026-07-28T09:15:00Z", "2026-07-28T09:15:00+00:00"),
        ("2026-07-28T09:15+02:00", "2026-07-28T07:15:00+00:00"),
    ],
)
def test_times_are_in_utc_unless_they_have_an_offset(text: str, moment: str) -> None:
    assert read(text) == moment


INVALID = (
    *("", "yesterday", "26", "-2d", "2 d", "2w", "1.5h", "٣d"),
    *("2026-02-30", "999999999d", "0001-01"),
)


@pytest.mark.parametrize("text", INVALID)
def test_invalid_time_is_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(BadParameter, match="is no point in time: give a date") as error:
        read(text)
    assert "90m, 26h, 2d" in str(error.value)
    assert error.value.param_hint == "--since"
