"""The files of the library that one order passes through: `python -m benchmarks.walk`.

A warm invocation of the shop's `orders` function is traced on an AWS in memory. The report,
`reports/walk.json`, has three figures:

- `modules`: files of `once/` that are entered;
- `moves`: a call into, or a return to, another file of `once/` than the one before counts as one;
- `calls`: calls of functions in `once/`. A resumed generator counts as another call; a
  comprehension is not counted.

Code outside of `once/` is skipped: a call that passes through it, such as a handler, counts as
if it were made directly. `once/testing/` replaces AWS here, and counts as outside.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import once
from benchmarks.orders import lambda_event
from functions.orders.handler import consumer
from once.testing import FakeAws, FakeContext

ROOT = Path(once.__file__).parents[1]
REPORT = ROOT / "reports" / "walk.json"
MOST_MOVES = 60
"""The goal: a reader can follow one order through the library."""

_LIBRARY = f"{ROOT / 'once'}/"
_TESTING = f"{ROOT / 'once' / 'testing'}/"
_COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


@dataclass(frozen=True, slots=True)
class Figures:
    """The length of a walk; the module's docstring defines each figure."""

    modules: int
    moves: int
    calls: int


@dataclass(slots=True)
class Walk:
    """The files of the library in the order in which they were entered or returned to.

    Attributes:
        files: the first file, and then the file of each move.
        calls: the functions that were called, each as its file and its name.
    """

    files: list[str] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def figures(self) -> Figures:
        """The length of the walk so far."""
        return Figures(len(set(self.files)), max(0, len(self.files) - 1), len(self.calls))

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call or a return; a profile function for `sys.setprofile`."""
        if event == "call":
            self._enter(frame.f_code)
        elif event == "return" and frame.f_back is not None:
            self._visit(frame.f_back.f_code)

    def _enter(self, code: CodeType) -> None:
        self._visit(code)
        if _is_library(code) and code.co_name not in _COMPREHENSIONS:
            self.calls.append((_short(code), code.co_qualname))

    def _visit(self, code: CodeType) -> None:
        if _is_library(code) and self.files[-1:] != [_short(code)]:
            self.files.append(_short(code))


def walk_of(work: Callable[[], object]) -> Walk:
    """Return the walk of a call, on this thread."""
    walk = Walk()
    before = sys.getprofile()
    sys.setprofile(walk.note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return walk


def walk_of_an_order() -> Walk:
    """Return the walk of one good order in the second invocation of a function."""
    with _warm() as handle:
        answers: list[Any] = []
        walk = walk_of(lambda: answers.append(handle(lambda_event([2]), FakeContext())))
    if answers != [{"batchItemFailures": []}]:
        raise AssertionError(f"the order did not commit: {answers}")
    return walk


@contextmanager
def _warm() -> Iterator[Callable[[Any, Any], Any]]:
    """Yield a function that has processed one order before; its log is discarded."""
    tables = {"orders": "order_id", "customers": "customer_id"}
    with redirect_stdout(StringIO()), FakeAws(consumer, tables) as aws:
        handle = consumer.bound_to(aws.runtime)
        handle(lambda_event([1]), FakeContext())
        yield handle


def _is_library(code: CodeType) -> bool:
    file = code.co_filename
    return file.startswith(_LIBRARY) and not file.startswith(_TESTING)


def _short(code: CodeType) -> str:
    return code.co_filename.removeprefix(_LIBRARY)


if __name__ == "__main__":
    found = asdict(walk_of_an_order().figures)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(found, indent=2) + "\n")
    sys.stdout.write(", ".join(f"{name} {number}" for name, number in found.items()) + "\n")
