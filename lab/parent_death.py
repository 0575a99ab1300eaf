"""Processes that end with the process that started them, whatever ends it."""

import ctypes
import signal
import sys

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def end_with_parent(by: signal.Signals) -> None:
    """Let the kernel send this process a signal when its parent is gone, also by SIGKILL.

    Linux only; elsewhere nothing happens.
    """
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, by)
