"""Rest: the state of a queue in which no message is left and no function works."""

import time
from threading import Event
from typing import Any

from once.ops.aws.clients import depth

REST_SECONDS = 120.0
_LOOK_SECONDS = 0.1
"""The longest time between two looks. An invocation is reported just before its messages are
deleted, so that its report alone does not show that they are."""


class Halted(Exception):
    """Another run has failed, or the user has ended the program."""


def wait_for_rest(
    sqs: Any, url: str, changed: Event, halted: Event, *, seconds: float = REST_SECONDS
) -> None:
    """Block until a queue is empty; look when an invocation has ended.

    Args:
        sqs: the client.
        url: of the queue.
        changed: set when an invocation has ended.
        halted: set when the wait is to end.
        seconds: how long to wait without an invocation that ends.

    Raises:
        Halted: `halted` was set.
        TimeoutError: messages are left, and no invocation ended for that time.
    """
    deadline = time.monotonic() + seconds
    while left := depth(sqs, url).total:
        if halted.is_set():
            raise Halted
        if changed.wait(_LOOK_SECONDS):
            changed.clear()
            deadline = time.monotonic() + seconds
        elif time.monotonic() > deadline:
            raise TimeoutError(f"{left} messages are left, and none was processed for {seconds} s")
