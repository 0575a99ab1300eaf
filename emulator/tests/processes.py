"""Processes that an embedded AWS has started: which of them run, and a wait for their end."""

import time
from collections.abc import Collection

import psutil

_PATIENCE_SECONDS = 120.0
"""A bound for a busy machine."""
_POLL_SECONDS = 0.1


def still_running(pids: Collection[int]) -> list[int]:
    """Return the processes that run. A zombie has ended: only its parent can remove it."""
    return [pid for pid in pids if _is_running(pid)]


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(pids: Collection[int]) -> None:
    """Block until none of the processes runs."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while running := still_running(pids):
        assert time.monotonic() < deadline, f"these still run: {running}"
        time.sleep(_POLL_SECONDS)
