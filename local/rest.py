"""Waiting until nothing moves any more."""

import time
from collections.abc import Callable, Collection
from typing import Any

from ops.queues import depth

_POLL_SECONDS = 0.1


def wait_until(what: str, holds: Callable[[], bool], *, timeout: float) -> None:
    """Block until a condition holds.

    Args:
        what: names the condition in the error.
        holds: the condition.
        timeout: how long to wait, in seconds.

    Raises:
        TimeoutError: it did not come to hold.
    """
    deadline = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {timeout:g} s")
        time.sleep(_POLL_SECONDS)


def wait_at_rest(sqs: Any, urls: Collection[str], *, timeout: float) -> None:
    """Block until every queue is empty; `timeout` is in seconds.

    Raises:
        TimeoutError: a queue still holds messages.
    """
    wait_until(
        "the queues are empty",
        lambda: not any(depth(sqs, url).total for url in urls),
        timeout=timeout,
    )
