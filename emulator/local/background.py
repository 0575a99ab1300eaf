"""Embedded AWS in the background: started by one command, found and ended by later ones.

Run as a module, this file is the process in the background.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from emulator.connection import Connection
from emulator.embedded_aws import embedded_aws
from emulator.installed import ROOT
from emulator.local import HOME, STATE
from once.ops.errors import OpsError

_READY = b"ready"
_POLL_SECONDS = 0.05
_END_SECONDS = 20.0
_TAIL_LINES = 20


@dataclass(frozen=True, slots=True)
class Background:
    """The embedded AWS of one folder; it may be running or not.

    Attributes:
        home: the folder of its state.
    """

    home: Path

    @property
    def log(self) -> Path:
        """The output of the process in the background."""
        return self.home / "process.log"

    def connection(self) -> Connection:
        """Return the connection to the running embedded AWS.

        Raises:
            OpsError: none is running.
        """
        state = self._state()
        if state is None:
            raise OpsError(
                f"no embedded AWS runs for this folder ({self.home.parent.parent}): "
                "`once local up` starts one"
            )
        if _process(state) is None:
            raise OpsError(
                f"the embedded AWS of this folder has ended by itself; its log is {self.log}; "
                "`once local up` starts a new one, empty"
            )
        return Connection(
            port=int(state["port"]),
            account=state["account"],
            certificate=Path(state["certificate"]),
            state_dir=_folder(self.home),
        )

    def start(self) -> bool:
        """Start an embedded AWS unless one is running.

        Returns:
            Whether it was started now.

        Raises:
            OpsError: it did not start; the message has its last log lines.
        """
        with self._locked() as process:
            if process is None:
                self._remove()
                self._launch()
            return process is None

    def end(self) -> bool:
        """End it, and delete everything in it; return whether it was running."""
        with self._locked() as process:
            if process:
                _end(process)
            self._remove()
            return process is not None

    def _launch(self) -> None:
        command = [sys.executable, "-m", __spec__.name, str(self.home)]
        with self.log.open("wb") as log:
            # It returns when the process in the background has closed the pipe.
            said = subprocess.run(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                check=False,
            ).stdout
        if said != _READY:
            lines = self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
            raise OpsError("\n".join(["the embedded AWS did not start:", *lines]))

    def _state(self) -> dict[str, str] | None:
        with suppress(FileNotFoundError):
            state: dict[str, str] = json.loads(_state_file(self.home).read_text())
            return state
        return None

    def _remove(self) -> None:
        """Delete all but the lock, the state file first: from then on, nothing is running."""
        _state_file(self.home).unlink(missing_ok=True)
        shutil.rmtree(_folder(self.home), ignore_errors=True)
        self.log.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[psutil.Process | None]:
        """Yield the process that runs, while no other command changes anything."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self._state()
            yield _process(state) if state else None


def background(folder: Path | None = None) -> Background:
    """Return the embedded AWS of an app's folder, by default the working directory."""
    return Background((folder or Path.cwd()).resolve() / HOME)


def serve(home: Path) -> None:
    """Run an embedded AWS until SIGTERM; once it is ready, say so and close the standard output."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with embedded_aws(state_dir=_folder(home)) as aws:
        process, part = psutil.Process(), home / "state.part"
        state = {
            "pid": str(process.pid),
            "created": str(process.create_time()),
            "port": str(aws.port),
            "account": aws.account,
            "certificate": str(aws.certificate),
        }
        part.write_text(json.dumps(state))
        part.rename(_state_file(home))  # whole, or not there
        os.write(sys.stdout.fileno(), _READY)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        aws.wait()


def _folder(home: Path) -> Path:
    return home / "aws"


def _state_file(home: Path) -> Path:
    return home / STATE


def _process(state: dict[str, str]) -> psutil.Process | None:
    """Return the process of a state; None if it has ended, or its number is another's now."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(int(state["pid"]))
        is_same = abs(process.create_time() - float(state["created"])) < 1
        if is_same and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _end(process: psutil.Process) -> None:
    process.terminate()
    deadline = time.monotonic() + _END_SECONDS
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            process.kill()  # its supervisor then ends the rest
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    # Go on in a new process without a parent, which Ctrl-C at the terminal does not reach.
    if os.fork():
        os._exit(0)
    os.setsid()
    serve(Path(sys.argv[1]))
