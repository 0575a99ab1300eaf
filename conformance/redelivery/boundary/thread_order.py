"""The order in which the handler's own threads make calls: it does not depend on their speed."""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from weakref import WeakSet

_WAITS = {"wait", "join", "acquire", "_wait_for_tstate_lock"}
_PAUSE_SECONDS = 0.0002
_PATIENCE_SECONDS = 1.0
"""After it a thread goes on: another one may wait for a lock, which its frame does not show."""

_sleep, _clock = time.sleep, time.perf_counter

started: WeakSet[threading.Thread] = WeakSet()
"""The threads that handlers have started, those of earlier invocations included."""

_waiting: dict[threading.Thread, str] = {}

_frames = threading.Lock()
"""One thread at a time looks at the frames of all."""


class ThreadOrder:
    """The order of one invocation: one thread at a time, when all others wait, by its call."""

    def __init__(self, main: threading.Thread) -> None:
        self._main = main
        self._lock: Any = threading.RLock()

    @contextmanager
    def turn(self, call: str, is_over: Callable[[], bool]) -> Iterator[None]:
        """Wait for the turn of this thread's call, unless its invocation is over; hold it."""
        thread = threading.current_thread()
        if thread is not self._main:
            _waiting[thread] = call
            wait_until(lambda: is_over() or self._is_next(thread))
        with self._lock:
            _waiting.pop(thread, None)
            yield

    def _is_next(self, thread: threading.Thread) -> bool:
        if not is_blocked(self._main):
            return False
        if any(not (other in _waiting or is_blocked(other)) for other in list(started)):
            return False
        waiting = sorted(_waiting.items(), key=lambda entry: (entry[1], entry[0].name))
        return waiting[0][0] is thread


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for other threads, on the real clock, but not for ever."""
    end = _clock() + _PATIENCE_SECONDS
    while not condition() and _clock() < end:
        _sleep(_PAUSE_SECONDS)


def is_blocked(thread: threading.Thread) -> bool:
    """Whether a thread has ended, or waits for another thread, a task or a socket."""
    # Of a thread that has ended, the number may be another one's by now.
    frame = _frame_of(thread) if thread.is_alive() else None
    if frame is None:
        return thread.ident is not None
    code = frame.f_code
    if code.co_filename.endswith("concurrent/futures/thread.py"):
        tasks = frame.f_locals.get("work_queue")
        return tasks is not None and tasks.empty()
    if code.co_filename.endswith("threading.py"):
        return code.co_name in _WAITS and not _begins_a_thread(frame)
    return code.co_filename.endswith("selectors.py")


def _frame_of(thread: threading.Thread) -> FrameType | None:
    # A collection inside the call may run Python code and so let another thread make the same call:
    # CPython 3.11 then hangs, each thread with the lock that the other needs (its issue 106883).
    with _frames:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames().get(thread.ident or 0)
        finally:
            if collects:
                gc.enable()


def _begins_a_thread(frame: FrameType | None) -> bool:
    """Whether it waits for a new thread to begin, and not for its work."""
    while frame is not None:
        if frame.f_code.co_name == "start" and frame.f_code.co_filename.endswith("threading.py"):
            return True
        frame = frame.f_back
    return False
