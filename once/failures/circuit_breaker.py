"""Circuit breaker: while a dependency fails, delays messages instead of attempting them.

While the breaker is open, messages return to the queue without an attempt. Their delay doubles with
each receive (ADR 0013). The state is in memory and lasts while the function is warm. One message
that fails among others that succeed does not open the breaker.
"""

import math
import random
from collections.abc import Callable

from once.errors import NotDone, OnceError, OutcomeUnknown, RequestRefused, Unanswered
from once.intake.reader import Disposition, MessageResult
from once.settings import Settings

_DEPENDENCY_ERRORS = (NotDone, Unanswered, OutcomeUnknown, RequestRefused)
"""Errors of the provider, of DynamoDB or of the function's permissions, not of the message."""

_SUCCESSES = (Disposition.COMMITTED, Disposition.REFUSED)

_IN_A_ROW = 3
"""Failures without a success in between that open the breaker."""


class CircuitBreaker:
    """Watches the results of one consumer. The clock is in seconds since the epoch."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._base = settings.breaker_base_seconds
        self._cap = settings.breaker_cap_seconds
        self._clock = clock
        self._failures = 0
        self._has_succeeded = False
        self._open_until = 0.0
        self._failed_at = 0.0

    @property
    def seconds_open(self) -> float:
        """Seconds until messages are attempted again; 0 while the breaker is closed.

        After that time the next message is attempted. Success closes the breaker, and failure opens
        it again.
        """
        return max(0.0, self._open_until - self._clock())

    @property
    def is_open(self) -> bool:
        """Whether messages are to be delayed without an attempt."""
        return self.seconds_open > 0

    @property
    def is_proven(self) -> bool:
        """Whether the last message of this warm function shows that its dependencies work."""
        return self._has_succeeded and self._failures < _IN_A_ROW

    def covers(self, error: OnceError) -> bool:
        """Return whether the breaker is open, and the error is one of a dependency."""
        return isinstance(error, _DEPENDENCY_ERRORS) and self.is_open

    def learn(self, *ended: tuple[MessageResult, int], began: float = math.inf) -> None:
        """Record the results of messages, each with its receive count; the last began then.

        Concurrent failures count as one: ten messages in one unanswered request,
        or ten calls of a provider side by side, did not fail ten times. Until the first success, a
        message's earlier receives count as failures that another function saw.
        """
        failed = [receives for result, receives in ended if isinstance(result, _DEPENDENCY_ERRORS)]
        if any(result in _SUCCESSES for result, _ in ended):
            self._has_succeeded, self._failures, self._open_until = True, 0, 0.0
        elif failed and began >= self._failed_at:
            self._failed_at = self._clock()
            self._failures += 1 if self._has_succeeded else max(failed)
            if self._failures >= _IN_A_ROW:
                seconds = self._longest(self._failures - _IN_A_ROW + 1) / 2
                self._open_until = self._clock() + seconds

    def delay(self, receive_count: int) -> float:
        """Return the delay of a message, in seconds.

        Half of it is fixed and half is jitter. With full jitter a message could spend all of its
        receives on one outage.
        """
        half = self._longest(receive_count) / 2
        return max(self.seconds_open, half) + random.uniform(0, half)  # noqa: S311

    def _longest(self, receive_count: int) -> float:
        return float(min(self._cap, self._base * 2.0 ** min(receive_count - 1, 32)))
