"""The time an invocation has. A timeout would lose the whole partial answer, so it is never met."""

import random
import time
from collections.abc import Callable
from typing import Protocol

_BASE_SECONDS = 0.025
_CAP_SECONDS = 1.0


class Context(Protocol):
    """As much of Lambda's context as is used."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the time until Lambda kills the function, in milliseconds."""


def full_jitter(attempt: int, *, base: float, cap: float) -> float:
    """Return a random delay between zero and a bound that doubles with each attempt from 0 on."""
    return random.uniform(0, min(cap, base * 2.0 ** min(attempt, 32)))  # noqa: S311


class Budget:
    """What is left of an invocation's time, less a margin for its answer.

    Args:
        remaining_ms: the time until Lambda kills the function, in milliseconds.
        margin_ms: what to keep back of it, in milliseconds.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        remaining_ms: Callable[[], int],
        margin_ms: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._remaining_ms = remaining_ms
        self._margin_ms = margin_ms
        self._sleep = sleep

    @property
    def seconds(self) -> float:
        """What is left, in seconds; zero or less when it is spent."""
        return (self._remaining_ms() - self._margin_ms) / 1000

    @property
    def seconds_to_the_end(self) -> float:
        """When Lambda kills the function, in seconds from now; the margin is not kept back."""
        return self._remaining_ms() / 1000

    @property
    def spent(self) -> bool:
        """Whether nothing more may be started."""
        return self.seconds <= 0

    @property
    def hurried(self) -> bool:
        """Whether half of the margin is gone: what is left is for the answer alone."""
        return self._remaining_ms() < self._margin_ms / 2

    def pause(self, attempt: int) -> bool:
        """Wait before another attempt; return False, at once, where there is no time for one."""
        delay = full_jitter(attempt, base=_BASE_SECONDS, cap=_CAP_SECONDS)
        if delay >= self.seconds:
            return False
        self._sleep(delay)
        return True
