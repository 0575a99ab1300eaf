"""Search for failing inputs of one parser.

One input in ten is drawn by Hypothesis, which shrinks and keeps a failing one. Its own work takes
longer than most parsers: the other inputs are drawn by Python's generator of random numbers.
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
PHASES = [Phase.generate, Phase.shrink]
_TOGETHER = 5
"""Inputs of one example of Hypothesis, whose own work takes longer than most checks."""
_CHUNK = 1000
"""Inputs that are drawn in one way at a time."""
_IN_TURNS = 10
"""One chunk in so many is Hypothesis's, the first one among them."""


class PropertyViolated(Exception):
    """A property does not hold. The text names the property and nothing of the input."""


class TimedOut(Exception):
    """One input took more than MAX_SECONDS."""


class _Failing(Exception):
    """An input fails."""


class _Alarm(BaseException):
    """No subclass of Exception: code under test that catches every Exception must not catch it."""


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
    """The result of a search: how many inputs were checked, and how many failed by each error.

    Attributes:
        smallest: an input that fails by each error, as small as Hypothesis could make it.
        rough: an input for each error as `sample` drew it.
    """

    checked: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    smallest: dict[str, Any] = field(default_factory=dict)
    rough: dict[str, Any] = field(default_factory=dict)

    @property
    def failing(self) -> dict[str, Any]:
        """An input that fails by each error, the smallest that is known."""
        return self.rough | self.smallest


def fuzz(parser: Parser, seed: str, inputs: int, tell: Tell = untold) -> Found:
    """Check so many inputs of a parser, which the seed decides, after those that failed before."""
    found = Found()
    while found.checked < inputs:
        turn, most = found.checked // _CHUNK % _IN_TURNS, min(_CHUNK, inputs - found.checked)
        (sample if turn else search)(parser, f"{seed}/{found.checked}", most, found)
        tell(found.checked)
    return found


def sample(parser: Parser, chunk: str, inputs: int, found: Found) -> Found:
    """Check so many inputs, without Hypothesis, and add what was found."""
    rng = Random(f"{chunk} {parser.name}")
    for _ in range(inputs):
        value = parser.draw(rng)
        error = parser.failure(value)
        found.checked += 1
        if error:
            found.failures[error] += 1
            # Hypothesis makes it smaller if it draws one as well.
            found.rough.setdefault(error, value)
    return found


def search(parser: Parser, chunk: str, inputs: int, found: Found) -> Found:
    """Check at most so many inputs, and add what was found: an unknown error ends the search.

    The first search of a parser begins with the failing inputs of earlier runs.

    Args:
        parser: the parser.
        chunk: the seed of these inputs.
        inputs: how many.
        found: of the other chunks of the parser.
    """
    last, new = found.checked + inputs, ""
    drawn = st.randoms(use_true_random=False).map(parser.draw)

    @settings(
        max_examples=-(-inputs // _TOGETHER),
        phases=PHASES if found.checked else (Phase.reuse, *PHASES),
        database=DirectoryBasedExampleDatabase(DATABASE / parser.name),
        derandomize=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )
    @seed(f"{chunk} {parser.name}")  # below the settings, whose database it would remove
    @given(st.lists(drawn, min_size=_TOGETHER, max_size=_TOGETHER))
    def run(values: list[Any]) -> None:
        nonlocal new
        for value in values:
            if found.checked == last and not new:
                return
            error = parser.failure(value)
            if not new:
                found.checked += 1
                found.failures.update([error] if error else [])
                new = "" if error in found.smallest else error
            if error and error == new:
                found.smallest[new] = value
                raise _Failing

    # Hypothesis warns that a failing input is long.
    with warnings.catch_warnings(), suppress(_Failing, Flaky):
        warnings.simplefilter("ignore", HypothesisWarning)
        run()
    return found
