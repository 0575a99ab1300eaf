"""Which invocation a thread works for: the one of the thread that started it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from redelivery.boundary.injection import Killed
from redelivery.boundary.invocation import Invocation
from redelivery.boundary.waiting import is_blocked, wait_until

_ATTRIBUTE = "_redelivery_invocation"
_start = threading.Thread.start


def current() -> Invocation | None:
    """Return the invocation of this thread; None for the kit's own calls."""
    return getattr(threading.current_thread(), _ATTRIBUTE, None)


@contextmanager
def working_for(invocation: Invocation) -> Iterator[None]:
    """Let this thread, and the threads that it starts, work for an invocation."""
    thread = threading.current_thread()
    setattr(thread, _ATTRIBUTE, invocation)
    try:
        yield
    finally:
        delattr(thread, _ATTRIBUTE)


@contextmanager
def inherited() -> Iterator[None]:
    """Let new threads work for the invocation of the thread that starts them."""

    def start(thread: threading.Thread) -> None:
        setattr(thread, _ATTRIBUTE, current())
        _start(thread)

    def report(failed: threading.ExceptHookArgs) -> None:
        if not issubclass(failed.exc_type, Killed):
            _report(failed)

    _report = threading.excepthook
    with patch.object(threading.Thread, "start", start), patch("threading.excepthook", report):
        yield


def wait_for_threads(invocation: Invocation) -> None:
    """Wait until every other thread of an invocation has ended or does nothing.

    Lambda freezes them when the handler has answered; what they still try is recorded.
    """
    for thread in threading.enumerate():
        if (
            getattr(thread, _ATTRIBUTE, None) is invocation
            and thread is not threading.current_thread()
        ):
            wait_until(lambda thread=thread: not thread.is_alive() or is_blocked(thread))  # type: ignore[misc]
