"""A fuzz target: one parser, how its inputs are generated, and which properties must hold."""

import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

MAX_SECONDS = 5.0
"""CPU time for one input. A sound parser needs milliseconds."""


class PropertyViolated(Exception):
    """A property does not hold. The text names the property and nothing of the input."""


class TimedOut(Exception):
    """One input took more than MAX_SECONDS."""


class _Alarm(BaseException):
    """No subclass of Exception: code under test that catches every Exception must not catch it."""


def expect(holds: bool, name: str) -> None:
    """Raise PropertyViolated unless the property of this name holds."""
    if not holds:
        raise PropertyViolated(name)


@dataclass(frozen=True, slots=True)
class Target:
    """A parser under test.

    Attributes:
        name: of the parser, in the report.
        share: percentage of all inputs.
        draw: generates an input that JSON can represent, so that a crash can be saved.
        check: passes an input to the parser. Raises PropertyViolated, or any error that the parser
            must not raise.
    """

    name: str
    share: int
    draw: Callable[[Random], Any]
    check: Callable[[Any], None]

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
