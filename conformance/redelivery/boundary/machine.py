"""The machine that the kit runs on: the handler's files, which outlive its simulated processes, and
the processes that it starts, which leave the simulation."""

import multiprocessing.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from redelivery.boundary.connections import is_declared
from redelivery.boundary.invocation import Invocation, call_site, current

_STARTS = {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork"}
_WRITES = os.O_WRONLY | os.O_RDWR
_NO_STATE = ("/dev/", "/proc/")


class ProcessStarted(BaseException):
    """The handler starts a process, whose effects are real and not seen."""


def _started(invocation: Invocation) -> ProcessStarted:
    site = call_site(invocation.root)
    return ProcessStarted(
        f"the handler starts a process at {site}: what it does is real, and is not seen. "
        "Declare the function that starts it, as Method('subprocess:run', ...)"
    )


@contextmanager
def spawning_refused() -> Iterator[None]:
    """Refuse processes that multiprocessing spawns: Python has no audit event for them."""

    def spawn(*arguments: Any) -> int:
        invocation = current()
        if invocation is not None and not is_declared(invocation):
            raise _started(invocation)
        return _spawn(*arguments)

    _spawn = multiprocessing.util.spawnv_passfds
    with patch("multiprocessing.util.spawnv_passfds", spawn):
        yield


@cache
def watch() -> None:
    """Watch this process, from now on: Python takes no such hook back."""
    sys.addaudithook(_observe)


def _observe(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in {"open", "sqlite3.connect"} and event not in _STARTS:
        return
    invocation = current()
    if invocation is None or invocation.loading or is_declared(invocation):
        return
    if event in _STARTS:
        raise _started(invocation)
    path = str(arguments[0])
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITES):
        return
    if path != ":memory:" and not path.startswith(_NO_STATE) and "__pycache__" not in path:
        invocation.record.files.setdefault(path, call_site(invocation.root))
