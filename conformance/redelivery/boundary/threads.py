"""The invocation that a thread works for: that of the thread that started or tasked it."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from redelivery.boundary.injection import Killed
from redelivery.boundary.invocation import Invocation
from redelivery.boundary.thread_order import is_blocked, started, wait_until

_ATTRIBUTE = "_redelivery_invocation"
_start = threading.Thread.start
_submit = ThreadPoolExecutor.submit


def current() -> Invocation | None:
    """Return the invocation of this thread; None for the kit's own calls."""
    return getattr(threading.current_thread(), _ATTRIBUTE, None)


@contextmanager
def working_for(invocation: Invocation) -> Iterator[None]:
    """Let this thread, and the threads that it starts, work for an invocation."""
    thread, before = threading.current_thread(), current()
    setattr(thread, _ATTRIBUTE, invocation)
    try:
        yield
    finally:
        setattr(thread, _ATTRIBUTE, before)


@contextmanager
def inherited() -> Iterator[None]:
    """Let new threads, and the tasks of a pool, work for the invocation that starts them."""

    def start(thread: threading.Thread) -> None:
        setattr(thread, _ATTRIBUTE, current())
        if current() is not None:
            started.add(thread)
        _start(thread)

    def submit(pool: ThreadPoolExecutor, task: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        # A pool of the handler's module has threads of earlier invocations.
        return _submit(pool, _task_of(current(), task), *args, **kw)

    def report(failed: threading.ExceptHookArgs) -> None:
        if not issubclass(failed.exc_type, Killed):
            _report(failed)

    _report = threading.excepthook
    with (
        patch.object(threading.Thread, "start", start),
        patch.object(ThreadPoolExecutor, "submit", submit),
        patch("threading.excepthook", report),
    ):
        yield


def _task_of(invocation: Invocation | None, task: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kw: Any) -> Any:
        if invocation is None:
            return task(*args, **kw)
        with working_for(invocation):
            return task(*args, **kw)

    return run


def wait_for_threads(invocation: Invocation) -> None:
    """Wait until every other thread of an invocation has ended or does nothing.

    Lambda freezes them when the handler has answered; what they still try is recorded.
    """
    own = threading.current_thread()
    others = [t for t in threading.enumerate() if getattr(t, _ATTRIBUTE, None) is invocation]
    for thread in others:
        if thread is not own:
            wait_until(partial(_is_idle, thread))


def _is_idle(thread: threading.Thread) -> bool:
    return not thread.is_alive() or is_blocked(thread)
