"""Quiescence: waits until queues are empty and published events have arrived."""

import time
from collections.abc import Callable, Collection
from typing import Any

from demo.audit import Evidence, undelivered_events
from once.ops.aws.clients import depth

_POLL_SECONDS = 0.1


def wait_until(what: str, holds: Callable[[], bool], *, timeout: float) -> None:
    """Block until a condition holds; `timeout` is in seconds.

    Raises:
        TimeoutError: it did not hold in time; the message names `what`.
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


def wait_until_quiescent(evidence: Evidence, urls: Collection[str], *, timeout: float) -> None:
    """Block until every queue is empty, and every published event has a dedup record.

    Args:
        evidence: holds the dedup records.
        urls: the queues of all subscribers.
        timeout: in seconds.

    Raises:
        TimeoutError: a message or an event is still in transit.
    """
    # An event may be in the stream between two readings, so two readings must agree.
    for _ in range(2):
        wait_until(
            "everything is processed",
            lambda: _are_empty(evidence.sqs, urls) and not undelivered_events(evidence),
            timeout=timeout,
        )


def _are_empty(sqs: Any, urls: Collection[str]) -> bool:
    return not any(depth(sqs, url).total for url in urls)
