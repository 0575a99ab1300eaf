"""Circuit breaker: while a dependency fails, delays messages instead of attempting them.

While the breaker is open, messages return to the queue without an attempt. Their delay doubles with
each receive (ADR 0011). The state is in memory and lasts while the function is warm. One message
that fails among others that succeed does not open the breaker.
"""

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime

from once.errors import NotDone, OnceError, OutcomeUnknown, RequestRefused, Unanswered
from once.intake.reader import Disposition, MessageResult
from once.settings import Settings

_DEPENDENCY_ERRORS = (NotDone, Unanswered, OutcomeUnknown, RequestRefused)
"""Errors of the provider, of DynamoDB or of the function's permissions, not of the message."""

_SUCCESSES = (Disposition.COMMITTED, Disposition.REFUSED)

_IN_A_ROW = 3
"""Failures without a success in between that open the breaker."""

_REMEMBERED = 10_000
"""Maximum of failing messages that are remembered. Beyond it, all are forgotten."""


def timestamp(seconds: float) -> str:
    """Return a time in seconds since the epoch as ISO 8601 in UTC, for a log line."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


class CircuitBreaker:
    """Watches the results of one consumer. The clock is in seconds since the epoch.

    A failure is evidence only if the message itself is unlikely to be the cause. A message that
    failed before a success, and fails again, is no evidence. Neither is a single message that fails
    repeatedly. Messages are identified by their id in the consumer's queue.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._base = settings.breaker_base_seconds
        self._cap = settings.breaker_cap_seconds
        self._clock = clock
        self._failures = 0
        self._has_succeeded = False
        self._open_until = 0.0
        self._failed_at = 0.0
        self._opened_at = 0.0
        self._error = ""
        self._failing: set[str] = set()  # since the last success
        self._failed_before: set[str] = set()
        self._untried_until = 0.0

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
    def log_fields(self) -> dict[str, str]:
        """Since when the breaker is open, the last error of its dependency, and the next attempt.

        Empty unless it is open, or waits for the attempt that decides.
        """
        if self._failures < _IN_A_ROW:
            return {}
        times = {
            "breaker_open_since": self._opened_at,
            "breaker_next_attempt": max(self._open_until, self._clock()),
        }
        return {**{name: timestamp(at) for name, at in times.items()}, "breaker_error": self._error}

    @property
    def is_proven(self) -> bool:
        """Whether the last message of this warm function shows that its dependencies work."""
        return self._has_succeeded and self._failures < _IN_A_ROW

    def holds(self, message_id: str) -> bool:
        """Return whether a message is to be delayed without an attempt.

        Once the breaker is open no more, but no message has succeeded, a message that has failed
        leaves the attempt to those that were delayed untried and are about to come back.
        """
        is_half_open = self._failures >= _IN_A_ROW
        leaves_it = is_half_open and self._knows(message_id)
        return self.is_open or (leaves_it and self._clock() < self._untried_until)

    def covers(self, error: OnceError, receive_count: int) -> bool:
        """Return whether a message that failed is delayed as long as the breaker delays others.

        Its error is one of a dependency. The breaker is open, or the message was received so often
        that attempts in quick succession do not help it.
        """
        is_long = self.is_open or receive_count >= _IN_A_ROW
        return isinstance(error, _DEPENDENCY_ERRORS) and is_long

    def learn(self, *ended: tuple[str, MessageResult, int], began: float = math.inf) -> None:
        """Record the results of messages, each with its id and receive count; the last began then.

        Concurrent failures count as one: ten messages in one unanswered request,
        or ten calls of a provider side by side, did not fail ten times. Until the first success, an
        earlier receive of a message counts as a failure that another function saw. One message
        alone does not open the breaker.
        """
        failed = {name: n for name, result, n in ended if isinstance(result, _DEPENDENCY_ERRORS)}
        fresh = failed.keys() - self._failed_before
        is_half_open = self._failures >= _IN_A_ROW
        counts = is_half_open or len(fresh) > 1 or not fresh <= self._failing
        evidence = [failed[name] for name in fresh] if counts else []
        self._failing |= fresh
        if len(self._failing) + len(self._failed_before) > _REMEMBERED:
            self._failing, self._failed_before = set(), set()
        if any(result in _SUCCESSES for _, result, _ in ended):
            self._has_succeeded, self._failures, self._open_until = True, 0, 0.0
            self._failed_before |= self._failing
            self._failing = set()
        # Messages that began before the last failure ran beside it, and are the same evidence.
        elif evidence and began >= self._failed_at:
            self._failed_at = self._clock()
            counts_one = self._has_succeeded or is_half_open
            self._failures += 1 if counts_one else min(max(evidence), _IN_A_ROW - 1)
            if self._failures >= _IN_A_ROW:
                self._opened_at = self._opened_at if is_half_open else self._failed_at
                self._error = next(
                    result.summary
                    for name, result, _ in ended
                    if name in fresh and isinstance(result, _DEPENDENCY_ERRORS)
                )
                seconds = self._longest(self._failures - _IN_A_ROW + 1) / 2
                self._open_until = self._clock() + seconds

    def postpone(self, message_id: str, receive_count: int) -> float:
        """Return the delay of a message that is held back, in seconds."""
        delay = self.delay(receive_count)
        self.expect(message_id, delay)
        return delay

    def expect(self, message_id: str, seconds: float) -> None:
        """Leave the attempt that decides to a message that comes back untried, unless it failed."""
        if not self._knows(message_id):
            self._untried_until = max(self._untried_until, self._clock() + seconds)

    def delay(self, receive_count: int) -> float:
        """Return the delay of a message, in seconds.

        Half of it is fixed and half is jitter. With full jitter a message could spend all of its
        receives on one outage.
        """
        half = self._longest(receive_count) / 2
        return max(self.seconds_open, half) + random.uniform(0, half)  # noqa: S311

    def _knows(self, message_id: str) -> bool:
        return message_id in self._failing or message_id in self._failed_before

    def _longest(self, receive_count: int) -> float:
        return float(min(self._cap, self._base * 2.0 ** min(receive_count - 1, 32)))
