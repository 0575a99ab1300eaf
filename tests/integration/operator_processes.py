"""Commands of `once` in processes of their own, each killed or halted at one of its calls of AWS.

Run as a module with a list of `Case`s as JSON. The processes are forked, so that the libraries are
imported once. Prints the list of their exit statuses: a negative one is the signal.
"""

import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import boto3
import msgspec

from once.ops.__main__ import app
from once.ops.dead_letters import search

BEFORE, AFTER = "before", "after"
POLL_SECONDS = 0.02
MOST_AT_ONCE = 5


@dataclass(frozen=True)
class Case:
    """One process.

    Attributes:
        arguments: of `once`.
        hold_seconds: how long a received letter is hidden.
        end: number of the call, and BEFORE or AFTER, at which the process is killed.
        halt: the same for a process that halts there. It makes the file `at`, and goes on when the
            file `go` exists; both are in `folder`.
        folder: for files and for its output.
    """

    arguments: tuple[str, ...]
    hold_seconds: int
    folder: str
    end: tuple[int, str] | None = None
    halt: tuple[int, str] | None = None

    def run(self) -> None:
        """Run the command in this process; does not return."""
        search.HOLD_SECONDS = self.hold_seconds
        search.WAIT_SECONDS = 0
        self._redirect()
        _Points(self).register()
        try:
            app(self.arguments, prog_name="once")
        except SystemExit as ended:
            sys.stdout.flush()
            os._exit(int(ended.code or 0))
        finally:
            os._exit(70)

    def _redirect(self) -> None:
        for stream, name in ((1, "stdout"), (2, "stderr")):
            handle = os.open(Path(self.folder) / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, stream)


class _Points:
    """Counts the calls of a process, and ends or halts it at its point."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._calls = 0

    def register(self) -> None:
        boto3.setup_default_session()
        session = boto3.DEFAULT_SESSION
        assert session is not None
        session.events.register_first("before-call", self._before)
        session.events.register_last("after-call", self._after)

    def _before(self, model: Any, **_: Any) -> None:
        if model.service_model.service_name == "cloudformation":
            return
        self._calls += 1
        self._reach((self._calls, BEFORE))

    def _after(self, model: Any, **_: Any) -> None:
        self._reach((self._calls, AFTER))

    def _reach(self, point: tuple[int, str]) -> None:
        if point == self._case.end:
            os.kill(os.getpid(), signal.SIGKILL)
        if point == self._case.halt:
            folder = Path(self._case.folder)
            (folder / "at").touch()
            while not (folder / "go").exists():
                time.sleep(POLL_SECONDS)


def command(cases: list[Case]) -> list[str]:
    """Return the command that runs these cases."""
    return [sys.executable, "-m", __name__, json.dumps([asdict(case) for case in cases])]


def _case(values: dict[str, Any]) -> Case:
    return msgspec.convert(values, Case)


def _main() -> None:
    cases = [_case(values) for values in json.loads(sys.argv[1])]
    statuses: dict[int, int] = {}
    running: list[int] = []
    pids = []
    for case in cases:
        if len(running) == MOST_AT_ONCE:
            _wait(running, statuses)
        pid = os.fork()
        if not pid:
            case.run()
        running.append(pid)
        pids.append(pid)
    while running:
        _wait(running, statuses)
    print(json.dumps([statuses[pid] for pid in pids]))  # noqa: T201


def _wait(running: list[int], statuses: dict[int, int]) -> None:
    pid, status = os.wait()
    statuses[pid] = os.waitstatus_to_exitcode(status)
    running.remove(pid)


if __name__ == "__main__":
    _main()
