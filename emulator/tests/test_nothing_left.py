"""After any end of its parent, an embedded AWS leaves no process and no file."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.installed import ROOT
from emulator.tests.processes import still_running, wait_until_gone

PARENT = """
import signal
from emulator.embedded_aws import embedded_aws

# A shell's background jobs ignore SIGINT, which Ctrl-C sends at a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)
with embedded_aws() as aws:
    pids = [aws.child.supervisor.pid, *(process.pid for process in aws.child.descendants())]
    print(aws.state_dir, *pids, flush=True)
    signal.pause()
"""


class Parent:
    """A process of its own that has started an embedded AWS."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        state_dir, *pids = self.process.stdout.readline().split()
        self.state_dir = Path(state_dir)
        self.pids = [int(pid) for pid in pids]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def parent() -> Iterator[Parent]:
    started = Parent()
    yield started
    started.close()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_after_a_signal(parent: Parent, sent: signal.Signals) -> None:
    assert len(parent.pids) >= 2
    assert still_running(parent.pids) == parent.pids
    assert parent.state_dir.exists()
    os.kill(parent.process.pid, sent)
    wait_until_gone(parent.pids)  # the supervisor among them, which deletes the directory
    assert not parent.state_dir.exists()
