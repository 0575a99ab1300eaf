"""Quiescence: waits until queues are empty and published events have arrived."""

import time
from collections.abc import Callable, Collection
from typing import Any

from demo.audit import Evidence, undelivered_events
from once.ops.aws.clients import depth

_POLL_SECONDS = 0.1
_SHOW_SECONDS = 2.0

Show = Callable[[str], object]


def ignore(_: str) -> None:
    """Show nothing."""


def wait_until(what: str, holds: Callable[[], bool], *, timeout: float) -> None:
    """Block until a condition holds.

    Args:
        what: name of the condition in the error.
        holds: the condition.
        timeout: how long to wait, in seconds.

    Raises:
        TimeoutError: the condition did not hold in time.
    """
    deadline = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {timeout:g} s")
        time.sleep(_POLL_SECONDS)


def wait_until_empty(sqs: Any, urls: Collection[str], *, timeout: float) -> None:
    """Block until every queue is empty; `timeout` is in seconds.

    Raises:
        TimeoutError: a queue still holds messages.
    """
    wait_until("the queues are empty", lambda: _are_empty(sqs, urls), timeout=timeout)


def wait_until_quiescent(
    evidence: Evidence, urls: Collection[str], *, timeout: float, show: Show = ignore
) -> None:
    """Block until every queue is empty, and every published event has a dedup record.

    Args:
        evidence: holds the dedup records.
        urls: the queues of all subscribers.
        timeout: how long to wait, in seconds.
        show: called every two seconds with the depths of the queues as text.

    Raises:
        TimeoutError: a message or an event is still in transit.
    """
    depths = _ShownDepths(evidence.sqs, urls, show)
    # An event may be in the stream between two readings, so two readings must agree.
    for _ in range(2):
        wait_until(
            "everything is processed",
            lambda: depths.are_zero() and not undelivered_events(evidence),
            timeout=timeout,
        )


class _ShownDepths:
    """The depths of queues. All are read only when they are shown: each is a call."""

    def __init__(self, sqs: Any, urls: Collection[str], show: Show) -> None:
        self._sqs, self._urls, self._show = sqs, urls, show
        self._next = 0.0

    def are_zero(self) -> bool:
        """Tell whether every queue is empty; show how many messages are left, now and then."""
        if time.monotonic() > self._next:
            self._next = time.monotonic() + _SHOW_SECONDS
            left = {url.rpartition("/")[2]: depth(self._sqs, url).total for url in self._urls}
            named = [f"{name} {count}" for name, count in left.items() if count]
            self._show(", ".join(named) or "the queues are empty, events are on their way")
        return _are_empty(self._sqs, self._urls)


def _are_empty(sqs: Any, urls: Collection[str]) -> bool:
    return not any(depth(sqs, url).total for url in urls)
