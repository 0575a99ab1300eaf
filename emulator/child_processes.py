"""Child processes that end with their parent, together with all their descendants.

A supervisor runs between parent and child, in a process group of its own. It reads a pipe whose
other end only the parent holds. However the parent ends (return, exception, Ctrl-C, SIGTERM, even
SIGKILL), the operating system closes that end. The supervisor then ends the process group and
deletes the scratch directory. Run as a script, this file is the supervisor.
"""

import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

GRACE_SECONDS = 3.0
POLL_SECONDS = 0.02
WATCH_SECONDS = 1.0
TAIL_LINES = 40


class ProcessFailed(RuntimeError):
    """A child failed, or did not become ready in time; the message has its last log lines."""


@dataclass(frozen=True)
class Child:
    """A running command, its supervisor, and the log both write to."""

    name: str
    supervisor: subprocess.Popen[bytes]
    log: Path

    def wait(
        self, timeout: float | None = None, *, watch: Callable[[], object] | None = None
    ) -> None:
        """Block until the command has ended with status 0.

        Args:
            timeout: Seconds; None waits without a limit.
            watch: Called every second meanwhile.

        Raises:
            ProcessFailed: It ended with another status than 0, or not in time.
        """
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        while (status := self._status(min(WATCH_SECONDS, deadline - time.monotonic()))) is None:
            if time.monotonic() >= deadline:
                raise self.failure(f"was still running after {timeout:g} s")
            if watch:
                watch()
        if status:
            raise self.failure(f"ended with status {status}")

    def _status(self, seconds: float) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.supervisor.wait(max(0, seconds))
        return None

    def wait_until(self, ready: Callable[[], bool], *, timeout: float) -> None:
        """Block until `ready()` is true; `timeout` is in seconds.

        Raises:
            ProcessFailed: The command ended first, or the time ran out.
        """
        deadline = time.monotonic() + timeout
        while not ready():
            if (status := self.supervisor.poll()) is not None:
                raise self.failure(f"ended with status {status} before it was ready")
            if time.monotonic() > deadline:
                raise self.failure(f"was not ready after {timeout:g} s")
            time.sleep(POLL_SECONDS)

    def descendants(self) -> list[psutil.Process]:
        """Return the live descendants of the supervisor, the command itself included."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.supervisor.pid).children(recursive=True)
        return []

    def failure(self, what: str) -> ProcessFailed:
        """Return an error with `what` happened and the last lines that the command printed."""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return ProcessFailed("\n".join([f"{self.name} {what}. Its last lines:", *lines]))

    def end(self) -> None:
        """End the command and its descendants; return when all are gone."""
        with suppress(subprocess.TimeoutExpired):
            self.supervisor.communicate(timeout=2 * GRACE_SECONDS)
        if self.supervisor.returncode is None or self.supervisor.returncode < 0:
            # The supervisor hangs, or was killed: end the processes of its group in its place.
            with suppress(ProcessLookupError):
                os.killpg(self.supervisor.pid, signal.SIGKILL)
            self.supervisor.wait()


@contextmanager
def running(
    name: str,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    cwd: Path,
    scratch: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> Iterator[Child]:
    """Run a command in the background for as long as the context lasts.

    Args:
        name: Its name in errors.
        command: Program and arguments.
        env: Its whole environment.
        log: File to which its output is appended.
        cwd: Its working directory.
        scratch: Directory to delete when this context, or this process, ends.
        pass_fds: File descriptors that the command inherits under the same numbers.
    """
    with log.open("ab") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-I", __file__, str(scratch or ""), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    child = Child(name, supervisor, log)
    try:
        yield child
    finally:
        child.end()


def run(
    name: str,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    cwd: Path,
    timeout: float,
    watch: Callable[[], object] | None = None,
) -> None:
    """Run a command to its end; `timeout` is in seconds, and `watch` is called every second.

    Raises:
        ProcessFailed: It ended with another status than 0, or not in time.
    """
    with running(name, command, env=env, log=log, cwd=cwd) as child:
        child.wait(timeout, watch=watch)


def _supervise(scratch: str, command: Sequence[str]) -> int:
    # The supervisor gets the signal that ends its group as well, and must survive it. The command
    # would inherit SIG_IGN, but not a handler.
    signal.signal(signal.SIGTERM, lambda *_: None)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)
    is_over = threading.Event()
    threading.Thread(target=_end_with_parent, args=(child, is_over), daemon=True).start()
    status = child.wait()
    _kill_group()
    # If the command ended by itself, the parent is still there and may read the directory.
    if scratch and is_over.is_set():
        shutil.rmtree(scratch, ignore_errors=True)
    return status if status >= 0 else 128 - status


def _end_with_parent(child: subprocess.Popen[bytes], is_over: threading.Event) -> None:
    os.read(sys.stdin.fileno(), 1)
    is_over.set()
    os.killpg(0, signal.SIGTERM)
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()


def _kill_group() -> None:
    while others := [p for p in psutil.process_iter() if _is_alive_in_own_group(p)]:
        for process in others:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(POLL_SECONDS)


def _is_alive_in_own_group(process: psutil.Process) -> bool:
    # A zombie is dead already: only its parent can remove it.
    with suppress(OSError, psutil.Error):
        return (
            process.pid != os.getpid()
            and os.getpgid(process.pid) == os.getpgrp()
            and process.status() != psutil.STATUS_ZOMBIE
        )
    return False


if __name__ == "__main__":
    sys.exit(_supervise(sys.argv[1], sys.argv[2:]))
