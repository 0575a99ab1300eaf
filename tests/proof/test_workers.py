"""Parts of long work: their results, the progress, and the end at the first error."""

import time
from io import StringIO

import pytest
from rich.console import Console

from proof import workers
from proof.workers import Part, Progress, Tell, run_parts


def begun_at(tell: Tell) -> float:
    return time.monotonic()


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


def test_the_time_left_follows_from_the_weight_of_what_the_last_five_minutes_did() -> None:
    weights = {"a": 1, "b": 1, "c": 8}
    parts = [Part(name, "runs", 1000, last, (), each) for name, each in weights.items()]
    progress = Progress(parts)
    now = progress._seen[0][0]
    text = progress.text(now + 100, {0}, [0, 250, 0])
    left = 100 * (750 + 8000) / 1250 / 60
    assert text == f"1 of 3 parts, about {left:.0f} min left; b: at most 750 runs left"
    progress.text(now + 400, {0}, [0, 250, 125])
    text = progress.text(now + 500, {0}, [0, 250, 375])
    assert text.startswith("1 of 3 parts, about 13 min left")  # 3,000 s of work in 400 s


def test_the_longest_parts_begin_first() -> None:
    sizes = (1, 9, 5, 7)
    parts = [Part("", "runs", size, begun_at, (), 1.0) for size in sizes]
    began = run_parts(parts, 1, Console(file=StringIO()))  # in the order of the parts
    assert sorted(range(4), key=began.__getitem__) == [1, 3, 2, 0]
