"""The clock of a run. The handler's sleeps move it instead of waiting."""

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import time_machine

from redelivery.boundary.threads import current

START = dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC)
_sleep = time.sleep


class Clock:
    """A clock that moves when it is told to, beside the little time that a run really takes."""

    def __init__(self, traveller: time_machine.Traveller) -> None:
        self._traveller = traveller

    def reset(self, start: dt.datetime) -> None:
        """Set the time."""
        self._traveller.move_to(start)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._traveller.shift(seconds)

    def now(self) -> float:
        """Return the time as a Unix timestamp."""
        return time.time()


@contextmanager
def clock() -> Iterator[Clock]:
    """Replace the clock of this Python process, and `time.sleep`."""

    def sleep(seconds: float) -> None:
        invocation = current()
        if invocation is None:
            _sleep(seconds)
        else:
            invocation.sleep(seconds)

    with time_machine.travel(START) as traveller, patch("time.sleep", sleep):
        yield Clock(traveller)
