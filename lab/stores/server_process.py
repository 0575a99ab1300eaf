"""The process of a server: started as a child, ended by its own signal."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.parent_death import end_with_parent

START_SECONDS = 20
END_SECONDS = 20


@contextmanager
def server_process(
    command: Sequence[str], *, ready: Callable[[], bool], folder: Path, user: str | None = None
) -> Iterator[None]:
    """Run a server while the block runs. Its process has ended afterwards.

    Args:
        command: the server in the foreground. SIGINT ends it.
        ready: whether it takes connections.
        folder: for its log, which is part of the error if it does not start.
        user: the name of the user that runs it; None for the one that runs this process.

    Raises:
        RuntimeError: it does not start.
    """
    log = folder / "server.log"
    # In a session of its own, Ctrl-C does not end the server before its users.
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            user=user,
            start_new_session=True,
            preexec_fn=lambda: end_with_parent(signal.SIGINT),
        )
    try:
        _wait(process, ready, log)
        yield
    finally:
        _end(process)


def _wait(process: subprocess.Popen[bytes], ready: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} does not start:\n{log.read_text()}")
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
