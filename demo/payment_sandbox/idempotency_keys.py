"""Idempotency keys as Stripe documents them.

The first request under a key executes, and its response is saved, even a 500. A repeated request
gets the saved response, a request with other parameters an error, and a request during the first
execution a 409. Rejections before execution are not saved. Keys expire.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from demo.payment_sandbox.errors import key_in_use, key_reused
from demo.payment_sandbox.http_messages import Response


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """Result of an execution: the response to save and the response to send, or None."""

    saved: Response | None = None
    sent: Response | None = None

    @classmethod
    def of(cls, answer: Response) -> "ExecutionResult":
        """Return the result that saves and sends the same response."""
        return cls(saved=answer, sent=answer)


@dataclass(frozen=True, slots=True)
class _Use:
    """First use of a key; without a response it still executes."""

    parameters: Mapping[str, str]
    since: float
    answer: Response | None = None


class IdempotencyKeys:
    """The keys in use. Thread-safe.

    Args:
        lifetime_seconds: lifetime of a key.
        clock: returns seconds since the epoch.
    """

    def __init__(self, lifetime_seconds: float, clock: Callable[[], float]) -> None:
        self._lifetime_seconds = lifetime_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._uses: dict[str, _Use] = {}

    def execute_once(
        self, key: str, parameters: Mapping[str, str], execute: Callable[[], ExecutionResult]
    ) -> Response | None:
        """Execute, or return the saved response; None if no response is to be sent.

        Raises:
            RequestRefused: the key is in use, or was used with other parameters.
        """
        with self._lock:
            if (answer := self._known(key, parameters)) is not None:
                return replace(answer, replayed=True)
            use = self._uses[key] = _Use(parameters, self._clock())
        outcome = ExecutionResult()
        try:
            outcome = execute()
        finally:
            self._finish(key, use, outcome.saved)
        return outcome.sent

    def _known(self, key: str, parameters: Mapping[str, str]) -> Response | None:
        use = self._uses.get(key)
        if use is None or self._is_forgotten(use):
            return None
        if use.parameters != parameters:
            raise key_reused(key)
        if use.answer is None:
            raise key_in_use(key)
        return use.answer

    def _is_forgotten(self, use: _Use) -> bool:
        # A key that executes does not expire.
        return use.answer is not None and self._clock() - use.since > self._lifetime_seconds

    def _finish(self, key: str, use: _Use, answer: Response | None) -> None:
        with self._lock:
            if answer is None:
                del self._uses[key]
            else:
                self._uses[key] = replace(use, answer=answer)
