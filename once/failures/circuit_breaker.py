"""Circuit breaker: while a dependency fails, delays messages instead of attempting them.

While the breaker is open, messages go back untried, to come again after a delay that doubles with
their receives and is never short: an outage of two hours then costs a message nine receives, and
not all of its receives within a minute. What is learnt is kept for as long as the function is warm.
A new one learns it anew, and soon: delays follow from the messages' own receives, and to begin with
so does how much their failures count. A message that fails alone, among others that are done, opens
nothing.
"""

import random
from collections.abc import Callable

from once.disposition import Disposition, MessageResult
from once.errors import CommitRefused, NotDone, OnceError, OutcomeUnknown, Unanswered
from once.settings import Settings

_OUTSIDE = (NotDone, Unanswered, OutcomeUnknown, CommitRefused)
"""Errors that the message does not cause: the provider, DynamoDB or a missing right does."""

_DONE = (Disposition.COMMITTED, Disposition.REFUSED)

_IN_A_ROW = 3
"""Failures of dependencies in a row, without a success in between, that open the breaker."""


class CircuitBreaker:
    """Watches the results of one consumer.

    Args:
        settings: the shortest and the longest delay.
        clock: the time, in seconds since the epoch.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._base = settings.breaker_base_seconds
        self._cap = settings.breaker_cap_seconds
        self._clock = clock
        self._failures = 0
        self._works = False
        self._open_until = 0.0

    @property
    def seconds_open(self) -> float:
        """Seconds until messages are attempted again; 0 while the breaker is closed.

        When it is over, the next message is tried: done, it closes the breaker; failed, it opens it
        anew.
        """
        return max(0.0, self._open_until - self._clock())

    @property
    def is_open(self) -> bool:
        """Whether messages are to be delayed without an attempt."""
        return self.seconds_open > 0

    def covers(self, error: OnceError) -> bool:
        """Tell whether an error is one of those for which it is open."""
        return isinstance(error, _OUTSIDE) and self.is_open

    def learn(self, *ended: tuple[MessageResult, int]) -> None:
        """Learn from messages that ended in one round: their results, and how often received.

        They are one piece of evidence: ten that shared a silent request have not failed ten times.
        A function that has never had anything done takes a message's earlier receives for failures
        that it did not see itself.
        """
        failed = [receives for result, receives in ended if isinstance(result, _OUTSIDE)]
        if any(result in _DONE for result, _ in ended):
            self._works, self._failures, self._open_until = True, 0, 0.0
        elif failed:
            self._failures += 1 if self._works else max(failed)
            if self._failures >= _IN_A_ROW:
                seconds = self._longest(self._failures - _IN_A_ROW + 1) / 2
                self._open_until = self._clock() + seconds

    def delay(self, receive_count: int) -> float:
        """Return when a message is to come again, in seconds from now.

        Half of it is certain and half is jitter: with full jitter a message could spend all of its
        receives on one outage.
        """
        half = self._longest(receive_count) / 2
        return max(self.seconds_open, half) + random.uniform(0, half)  # noqa: S311

    def _longest(self, receive_count: int) -> float:
        return float(min(self._cap, self._base * 2.0 ** min(receive_count - 1, 32)))
