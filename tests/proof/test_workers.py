"""Parts of long work end at the first error."""

import time
from io import StringIO

import pytest
from rich.console import Console

from proof import workers
from proof.workers import Part, Tell, run_parts


def fail(tell: Tell) -> None:
    tell(1)
    raise LookupError("no such scope")


def last(tell: Tell) -> None:
    for units in range(30_000):
        tell(units)
        time.sleep(0.01)


def test_the_first_error_ends_the_other_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LINE_SECONDS", 0.2)
    shown = StringIO()
    parts = [
        *(Part("long", "states", 30_000, last, (), 0.01) for _ in range(2)),
        Part("short", "seeds", 1, fail, (), unit_seconds=1000.0),
        *(Part("not begun", "states", 1, last, (), 0.01) for _ in range(8)),
    ]
    began = time.monotonic()
    with pytest.raises(LookupError, match="no such scope"):
        run_parts(parts, 2, Console(file=shown))
    assert time.monotonic() - began < 150
