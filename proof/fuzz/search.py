"""Search for failing inputs of one parser.

Hypothesis draws one input in twenty, and makes failing inputs smaller. Its own work takes longer
than most parsers: the other inputs are drawn by Python's generator of random numbers.
"""

import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import Flaky, HypothesisWarning

from proof.report import ROOT
from proof.workers import Tell, untold

DATABASE = ROOT / ".hypothesis" / "fuzz"
"""The failing inputs of each parser: the next run begins with them."""
MAX_SECONDS = 5.0
"""CPU time for one input. A sound parser needs milliseconds."""
_BY_HYPOTHESIS = 20


class PropertyViolated(Exception):
    """A property does not hold. The text names the property and nothing of the input."""


class TimedOut(Exception):
    """One input took more than MAX_SECONDS."""


class _Alarm(BaseException):
    """No subclass of Exception: code under test that catches every Exception must not catch it."""


class _Failing(Exception):
    """An input fails."""


def expect(holds: bool, name: str) -> None:
    """Raise PropertyViolated unless the property of this name holds."""
    if not holds:
        raise PropertyViolated(name)


class Parser(NamedTuple):
    """A parser under test.

    Attributes:
        name: of the parser, in the report.
        share: percentage of all inputs.
        milliseconds: CPU time of one input, about: for the order of the work, and its progress.
        draw: generates an input that JSON can represent, so that a crash can be saved.
        check: passes an input to the parser. Raises PropertyViolated, or any error that the parser
            must not raise.
    """

    name: str
    share: int
    milliseconds: float
    draw: Callable[[Random], Any]
    check: Callable[[Any], None]

    def failure(self, value: Any) -> str:
        """Check an input; return the property or the error by which it fails, empty if it passes.

        Only in the main thread, where Python handles signals.
        """

        def alarm(*_: object) -> None:
            raise _Alarm

        signal.signal(signal.SIGVTALRM, alarm)
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
        try:
            try:
                self.check(value)
            except _Alarm:
                raise TimedOut from None
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except PropertyViolated as error:
            return str(error)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.name}"
        return ""


@dataclass(slots=True)
class Found:
    """The result of a search.

    Attributes:
        checked: number of inputs.
        failures: number of failing inputs by error.
        failing: an input for each error, the smallest that was found.
    """

    checked: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    failing: dict[str, Any] = field(default_factory=dict)

    def count(self, error: str) -> bool:
        """Count an input that was checked; return whether it fails by an unknown error."""
        self.checked += 1
        self.failures.update([error] if error else [])
        return error not in ("", *self.failing)


def fuzz(parser: Parser, run: str, inputs: int, tell: Tell = untold) -> Found:
    """Check so many inputs of a parser, which the run decides, after those that failed before."""
    found, rng, unknown = Found(), Random(f"{run} {parser.name}"), ""

    def is_new(error: str) -> bool:
        nonlocal unknown
        if not unknown and found.checked < inputs and found.count(error):
            unknown = error
        return bool(error) and error == unknown

    smallest = _search(parser, is_new, rng, -(-inputs // _BY_HYPOTHESIS))
    if unknown:
        found.failing[unknown] = smallest
    while found.checked < inputs:
        value = parser.draw(rng)
        error = parser.failure(value)
        if found.count(error):
            found.failing[error] = value
            smaller = _search(parser, error.__eq__, rng, inputs)
            found.failing[error] = value if smaller is None else smaller
        tell(found.checked)
    return found


def _search(parser: Parser, is_wanted: Callable[[str], bool], rng: Random, inputs: int) -> Any:
    """Return the smallest input with a wanted error among so many of Hypothesis; None for none.

    It begins with the failing inputs of earlier runs.
    """
    smallest = None

    @settings(
        max_examples=inputs,
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        database=DirectoryBasedExampleDatabase(DATABASE / parser.name),
        derandomize=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )
    @seed(rng.random())  # below the settings, whose database it would remove
    @given(st.randoms(use_true_random=False).map(parser.draw))
    def run(value: Any) -> None:
        nonlocal smallest
        if is_wanted(parser.failure(value)):
            smallest = value
            raise _Failing

    # Hypothesis warns that a failing input is long.
    with warnings.catch_warnings(), suppress(_Failing, Flaky):
        warnings.simplefilter("ignore", HypothesisWarning)
        run()
    return smallest
