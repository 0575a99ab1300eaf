"""Deadline: the time that an invocation has left. A timeout would lose the partial batch answer."""

import random
import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Protocol, Self

from msgspec import Struct

from once.errors import OutOfTime

_BASE_SECONDS = 0.025
_CAP_SECONDS = 1.0


class Context(Protocol):
    """The part of Lambda's context that Once uses."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the time until Lambda kills the function, in milliseconds."""


def full_jitter(attempt: int, *, base: float, cap: float) -> float:
    """Return a random delay between zero and a bound that doubles with each attempt from 0 on."""
    return random.uniform(0, min(cap, base * 2.0 ** min(attempt, 32)))  # noqa: S311


class Deadline(Struct, frozen=True):
    """The time that an invocation has left, less a margin for its answer; both in milliseconds.

    `sleep` waits for a number of seconds.

        start ───────────────────────── spent ───────── hurried ───────── Lambda kills
              read, run, commit, call │ finish what is under way │ answer

    A killed function answers nothing. SQS then delivers the whole batch again, the committed
    messages too, and counts a receive for each.
    """

    remaining_ms: Callable[[], int]
    margin_ms: int
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def at(
        cls,
        ends: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        function_ms: Callable[[], int] | None = None,
    ) -> Self:
        """Return the time until a moment, in seconds since the epoch, or the end of the function.

        `function_ms` returns the time that the function has left, less its margin.
        """

        def remaining_ms() -> int:
            own = int((ends - clock()) * 1000)
            return own if function_ms is None else min(own, function_ms())

        return cls(remaining_ms, 0, sleep)

    @property
    def seconds(self) -> float:
        """The time that is left, in seconds; zero or less when it is used up."""
        return (self.remaining_ms() - self.margin_ms) / 1000

    @property
    def seconds_to_the_end(self) -> float:
        """The time until Lambda kills the function, in seconds, including the margin."""
        return self.remaining_ms() / 1000

    @property
    def spent(self) -> bool:
        """Whether no further work may be started."""
        return self.seconds <= 0

    @property
    def hurried(self) -> bool:
        """Whether half of the margin is gone: the rest is for the answer alone."""
        return self.remaining_ms() < self.margin_ms / 2

    def steps(self, count: int) -> Iterator[None]:
        """Return an endless iterator for long work, of which `next` is called before each step.

        It looks at the clock before each `count` steps.

        Raises:
            OutOfTime: on `next`, when no time is left.
        """
        return chain.from_iterable(self._rounds(count))

    def _rounds(self, count: int) -> Iterator[Iterator[None]]:
        while not self.spent:
            yield repeat(None, count)
        raise OutOfTime("the invocation's time was up while the message was read")

    def pause(self, attempt: int) -> bool:
        """Wait before another attempt; return False, without a wait, if there is no time for it."""
        delay = full_jitter(attempt, base=_BASE_SECONDS, cap=_CAP_SECONDS)
        if delay >= self.seconds:
            return False
        self.sleep(delay)
        return True
