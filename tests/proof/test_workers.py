"""Parts of long work: their results, the progress, and the end at the first error."""

import time
from io import StringIO

import pytest
from rich.console import Console

from proof import workers
from proof.workers import Part, Progress, Tell, run_parts


def double(number: int, tell: Tell) -> int:
    tell(1)
    return 2 * number


def fail(tell: Tell) -> None:
    tell(1)
    raise LookupError("no such scope")


def last(tell: Tell) -> None:
    for units in range(3000):
        tell(units)
        time.sleep(0.01)


def test_results_are_in_the_order_of_the_parts() -> None:
    parts = [Part(f"{n}", "seeds", size, double, (n,)) for n, size in enumerate((1, 9, 5))]
    assert run_parts(parts, 2, Console(file=StringIO())) == [0, 2, 4]


def test_the_first_error_ends_the_other_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LINE_SECONDS", 0.2)
    shown = StringIO()
    parts = [Part("long", "states", 3000, last, ()), Part("short", "seeds", 1, fail, ())]
    began = time.monotonic()
    with pytest.raises(LookupError, match="no such scope"):
        run_parts(parts, 2, Console(file=shown))
    assert time.monotonic() - began < 20


def test_the_time_left_follows_from_the_units_left() -> None:
    parts = [Part(f"{n}", "states", 1000, last, ()) for n in "abc"]
    progress = Progress(parts, {0}, [400, 250, 0], [4.0, 5.0, 0.0])
    # b at its own 20 ms a state, c at the mean of all
    assert progress.seconds_left() == pytest.approx(750 * 5 / 250 + 1000 * 9 / 650)
    assert progress.text(elapsed=9.0) == (
        "1 of 3 parts, about 0 min left; b: at most 750 states left"
    )
    assert "about 14 min left" in progress.text(elapsed=9.0 * 29)
