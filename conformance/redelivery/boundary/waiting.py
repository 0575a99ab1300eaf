"""Waiting for the handler's own threads, on the real clock."""

import sys
import threading
import time
from collections.abc import Callable

_WAITING_IN = ("threading.py", "concurrent/futures/_base.py", "queue.py", "selectors.py")
_IDLE_IN = "concurrent/futures/thread.py"
_PAUSE_SECONDS = 0.0002
_sleep = time.sleep


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition of other threads holds."""
    while not condition():
        _sleep(_PAUSE_SECONDS)


def is_blocked(thread: threading.Thread) -> bool:
    """Whether a thread has ended, or waits for another thread, a queue or a socket."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return True
    file = frame.f_code.co_filename
    if not file.endswith(_WAITING_IN):
        return file.endswith(_IDLE_IN)
    while frame is not None:
        if frame.f_code.co_name == "start" and frame.f_code.co_filename.endswith("threading.py"):
            return False  # it waits for the new thread to begin, not for its work
        frame = frame.f_back
    return True
