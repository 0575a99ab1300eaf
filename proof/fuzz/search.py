"""Search for failing inputs of one parser by Hypothesis, which also shrinks and keeps them."""

import math
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

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
SHRINK_SECONDS = 20.0
"""Limits shrinking, because each attempt for an input that times out does so as well."""
RANDOMS = st.randoms(use_true_random=False)
_CHUNK = 1000
"""Inputs that Hypothesis searches at a time: at most so many, and a quarter of all."""
_PHASES = (Phase.generate, Phase.target, Phase.shrink)


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
        milliseconds: CPU time of one input, about: for the order of the work, and its progress.
        draw: generates an input that JSON can represent, so that a crash can be saved.
        check: passes an input to the parser. Raises PropertyViolated, or any error that the parser
            must not raise. May call `hypothesis.target` if an example has one input.
        together: inputs of one example of Hypothesis, whose own work takes longer than most checks.
    """

    name: str
    share: int
    milliseconds: float
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


@dataclass(slots=True)
class Found:
    """The result of a search: how many inputs were checked, and how many failed by each error.

    Attributes:
        smallest: an input that fails by each error, as small as Hypothesis could make it.
    """

    checked: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    smallest: dict[str, Any] = field(default_factory=dict)


def fuzz(parser: Parser, seed: str, inputs: int, tell: Tell = untold) -> Found:
    """Check so many inputs of a parser, which the seed decides, after those that failed before."""
    found, size = Found(), min(_CHUNK, max(100, -(-inputs // 4)))
    for start in range(0, inputs, size):
        search(parser, f"{seed}/{start}", min(size, inputs - start), found)
        tell(found.checked)
    return found


def search(parser: Parser, chunk: str, inputs: int, found: Found) -> Found:
    """Check inputs of a parser, shrink one for each new error, and add all to what was found.

    The first search of a parser begins with the failing inputs of earlier runs.

    Args:
        parser: the parser.
        chunk: the seed of these inputs.
        inputs: how many.
        found: of the other chunks of the parser.
    """
    phases = _PHASES if found.checked else (Phase.reuse, *_PHASES)
    # A new error ends a search of Hypothesis. What else fails is counted by another search.
    while (failures := _failures(parser, chunk, inputs, found.smallest, phases)) is None:
        phases = _PHASES
    found.checked += inputs
    found.failures.update(failures)
    return found


def _failures(
    parser: Parser, chunk: str, inputs: int, smallest: dict[str, Any], phases: Iterable[Phase]
) -> Counter[str] | None:
    """Count the inputs that fail by each known error; None if there is one that was not known."""
    failures: Counter[str] = Counter()
    checked, new, end = 0, "", math.inf

    def check(value: Any) -> None:
        nonlocal checked, new, end
        # Hypothesis may run more inputs than it was told, to raise a target.
        if time.monotonic() > end or (checked == inputs and not new):
            return
        checked += 1
        error = parser.failure(value)
        if error and not new and error not in smallest:
            new, end = error, time.monotonic() + SHRINK_SECONDS
        if error and error == new:
            smallest[new] = value
            raise _Found
        if error:
            failures[error] += 1

    with suppress(_Found, Flaky):  # it is flaky if shrinking ended in the middle
        _run(parser, chunk, -(-inputs // parser.together), tuple(phases), check)
    return None if new else failures


def _run(
    parser: Parser,
    chunk: str,
    examples: int,
    phases: tuple[Phase, ...],
    check: Callable[[Any], None],
) -> None:
    """Run Hypothesis for so many examples, which depend on the seed alone."""

    @settings(
        max_examples=examples,
        phases=phases,
        database=DirectoryBasedExampleDatabase(DATABASE / parser.name),
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

    with warnings.catch_warnings():
        # Hypothesis describes a failing input, and warns that it is long.
        warnings.simplefilter("ignore", HypothesisWarning)
        run()
