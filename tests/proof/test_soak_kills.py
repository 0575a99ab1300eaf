"""The killer: processes of functions alone, at the pace of their work, and none that is gone."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import cast

import psutil
import pytest

from demo.quiescence import wait_until
from emulator.embedded_aws import EmbeddedAws
from proof.soak.kills import Killer, killing

PATIENCE_SECONDS = 20
SLEEPER = "import sys; sys.stdin.read()"


class Functions:
    """What the killer asks of an embedded AWS: the live processes of a function."""

    def __init__(self) -> None:
        self.started: dict[str, list[subprocess.Popen[bytes]]] = {}

    def start(self, name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-c", SLEEPER]
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        self.started.setdefault(name, []).append(process)
        return process

    def function_processes(self, name: str) -> list[psutil.Process]:
        alive = (p for p in self.started.get(name, ()) if p.poll() is None)
        return [psutil.Process(process.pid) for process in alive]


class Gone(Functions):
    """Processes that are gone just before they are killed."""

    def function_processes(self, name: str) -> list[psutil.Process]:
        found = super().function_processes(name)
        for process in self.started.get(name, ()):
            process.kill()
            process.wait()
        return found


def end(functions: Functions) -> None:
    for process in (process for some in functions.started.values() for process in some):
        with process:  # which closes its pipe
            process.kill()


@pytest.fixture(params=[Functions])
def functions(request: pytest.FixtureRequest) -> Iterator[Functions]:
    made = request.param()
    yield made
    end(made)


class Calls:
    """How many calls the functions have made, as a test says."""

    made = 0

    def __call__(self) -> int:
        return self.made


def killer_of(functions: Functions, calls: Calls, *names: str, every: float = 1.0) -> Killer:
    return Killer(cast(EmbeddedAws, functions), names, calls, every, seed=1)


def wait_until_killed(killer: Killer, times: int) -> None:
    wait_until("killed", lambda: killer.killed.total() == times, timeout=PATIENCE_SECONDS)


def test_processes_of_the_functions_that_are_named_are_killed_one_by_one(
    functions: Functions,
) -> None:
    doomed, spared = [functions.start("orders") for _ in range(2)], functions.start("others")
    calls = Calls()
    killer = killer_of(functions, calls, "orders")
    with killing(killer):
        for times in (1, 2):
            calls.made += 100
            wait_until_killed(killer, times)
            assert len(functions.function_processes("orders")) == 2 - times
    assert [process.wait(PATIENCE_SECONDS) for process in doomed] == [-signal.SIGKILL] * 2
    assert killer.killed == {"orders": 2}
    assert spared.poll() is None


def test_nothing_is_killed_before_its_work_has_begun(functions: Functions) -> None:
    idle, calls = functions.start("orders"), Calls()
    asked = threading.Event()

    def made() -> int:
        asked.set()
        return calls()

    killer = Killer(cast(EmbeddedAws, functions), ["orders"], made, every=1.0, seed=1)
    with killing(killer):
        assert asked.wait(PATIENCE_SECONDS)
    assert idle.poll() is None
    assert not killer.killed


@pytest.mark.parametrize("functions", [Gone], indirect=True)
def test_what_is_gone_already_is_not_counted(functions: Functions) -> None:
    process, calls = functions.start("orders"), Calls()
    calls.made = 100
    killer = killer_of(functions, calls, "orders")
    with killing(killer):
        assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL  # by the test itself
    assert not killer.killed


def test_it_ends_with_a_context_that_fails(functions: Functions) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        killing(killer_of(functions, Calls(), "orders")),
    ):
        _ = 1 / 0
    assert "killer" not in [thread.name for thread in threading.enumerate()]
