"""Search for failing inputs of one parser by Hypothesis, which also shrinks and keeps them."""

import json
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest import SkipTest

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import Flaky

from proof.report import ROOT

DATABASE = ROOT / ".hypothesis" / "fuzz"
"""The failing inputs of each parser: the next run begins with them."""
MAX_SECONDS = 5.0
"""CPU time for one input. A sound parser needs milliseconds."""
SHRINK_SECONDS = 20.0
"""Limits shrinking, because each attempt for an input that times out does so as well."""
RANDOMS = st.randoms(use_true_random=False)
_FIND = (Phase.generate, Phase.target)


class PropertyViolated(Exception):
    """A property does not hold. The text names the property and nothing of the input."""


class TimedOut(Exception):
    """One input took more than MAX_SECONDS."""


class _Found(Exception):
    """The input fails by the error that is searched."""


class _Alarm(BaseException):
    """No subclass of Exception: code under test that catches every Exception must not catch it."""


def expect(holds: bool, name: str) -> None:
    """Raise PropertyViolated unless the property of this name holds."""
    if not holds:
        raise PropertyViolated(name)


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser under test.

    Attributes:
        name: of the parser, in the report.
        share: percentage of all inputs.
        draw: generates an input that JSON can represent, so that a crash can be saved.
        check: passes an input to the parser. Raises PropertyViolated, or any error that the parser
            must not raise. May call `hypothesis.target` if an example has one input.
        together: inputs of one example of Hypothesis, whose own work takes longer than most checks.
    """

    name: str
    share: int
    draw: Callable[[Random], Any]
    check: Callable[[Any], None]
    together: int = 5

    def failure(self, value: Any) -> str | None:
        """Check an input; return the property or the error by which it fails, None if it passes.

        Only in the main thread, where Python handles signals.
        """
        try:
            self._check_in_time(value)
        except PropertyViolated as error:
            return str(error)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.name}"
        return None

    def _check_in_time(self, value: Any) -> None:
        signal.signal(signal.SIGVTALRM, _alarm)
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
        try:
            self.check(value)
        except _Alarm:
            raise TimedOut from None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _alarm(*_: object) -> None:
    raise _Alarm


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: how many inputs were checked, and how many failed by each error.

    Attributes:
        smallest: an input that fails by each error, as small as Hypothesis could make it.
    """

    checked: int
    failures: Counter[str]
    smallest: dict[str, Any]


def search(parser: Parser, chunk: str, inputs: int, known: set[str]) -> Found:
    """Check inputs of a parser, and shrink one for each error that is not yet known.

    Args:
        parser: the parser.
        chunk: the seed of these inputs.
        inputs: how many.
        known: the errors of which this process has shrunk an input; new ones are added.
    """
    failures: Counter[str] = Counter()
    smallest: dict[str, Any] = {}
    checked = 0

    # Nothing is raised, or Hypothesis would end the search, and what fails would not be counted.
    def count(value: Any) -> None:
        nonlocal checked
        checked += 1
        if error := parser.failure(value):
            failures[error] += 1
            smallest.setdefault(error, value)

    _run(parser, chunk, -(-inputs // parser.together), _FIND, count)
    new = failures.keys() - known
    known |= new
    for error in sorted(new):
        smallest[error] = _shrunk(parser, chunk, inputs, error, smallest[error])
    return Found(checked, failures, smallest)


def stored(parser: Parser) -> Found:
    """Check the inputs that Hypothesis has kept of earlier runs, until one fails."""
    values: dict[str, Any] = {}
    checked = 0

    def check(value: Any) -> None:
        nonlocal checked
        checked += 1
        if error := parser.failure(value):
            values[error] = value
            raise _Found

    with suppress(_Found, Flaky, SkipTest):  # it skips if there are none
        _run(parser, "", 1, (Phase.reuse,), check, keep=True)
    return Found(checked, Counter(dict.fromkeys(values, 1)), values)


def _shrunk(parser: Parser, chunk: str, inputs: int, error: str, first: Any) -> Any:
    """Search the same inputs until the first one that fails by this error; return a small one."""
    end = time.monotonic() + SHRINK_SECONDS
    smallest, results = first, dict[str, bool]()

    def check(value: Any) -> None:
        nonlocal smallest
        text = json.dumps(value)
        if text not in results:
            if time.monotonic() > end:
                return  # without further failures, shrinking ends
            results[text] = parser.failure(value) == error
        if results[text]:
            smallest = value
            raise _Found

    phases = (*_FIND, Phase.shrink)
    with suppress(_Found, Flaky):
        _run(parser, chunk, -(-inputs // parser.together), phases, check, keep=True)
    return smallest


def _run(
    parser: Parser,
    chunk: str,
    examples: int,
    phases: tuple[Phase, ...],
    check: Callable[[Any], None],
    *,
    keep: bool = False,
) -> None:
    """Run Hypothesis for so many examples, which depend on the seed alone."""

    @settings(
        max_examples=examples,
        phases=phases,
        database=DirectoryBasedExampleDatabase(DATABASE / parser.name) if keep else None,
        derandomize=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )
    @seed(f"{chunk} {parser.name}")  # below the settings, whose database it would remove
    @given(st.lists(RANDOMS.map(parser.draw), min_size=parser.together, max_size=parser.together))
    def run(values: list[Any]) -> None:
        for value in values:
            check(value)

    run()
