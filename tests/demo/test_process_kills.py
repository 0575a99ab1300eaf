"""Process kills end the process that waits for a held charge, and no other process."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import cast
from urllib.parse import urlsplit

import psutil
import pytest

from demo.payment_sandbox import FaultRates, PaymentFault, PaymentSandbox, payment_sandbox
from demo.process_kills import ProcessKills, kill_processes
from demo.quiescence import wait_until
from emulator.embedded_aws import EmbeddedAws

CHARGING, RELAY, ORDERS = "once-payments", "once-outbox_relay", "once-orders"
LONG_SECONDS = 3600.0
PATIENCE_SECONDS = 20
# A function's process: it connects to the provider, and sends what it is told to.
PROCESS = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
connection.sendall(sys.stdin.buffer.read())
connection.recv(1)
"""
BODY = b"amount=700&currency=eur&confirm=true&payment_method=pm_card_visa"
REQUEST = (
    b"POST /v1/payment_intents HTTP/1.1\r\nHost: sandbox\r\nAuthorization: Bearer sk\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
)


class Process:
    """A process of a function that is connected to the provider."""

    def __init__(self, port: int) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-c", PROCESS, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.seen = psutil.Process(self._popen.pid)

    @property
    def lives(self) -> bool:
        return self._popen.poll() is None

    def connect(self) -> None:
        assert self._popen.stdout is not None
        assert self._popen.stdout.readline() == b"connected\n"

    def charge(self) -> None:
        """Let it ask for a charge, and wait for the answer."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(REQUEST)
        self._popen.stdin.close()

    def status(self) -> int:
        return self._popen.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        with self._popen:  # which closes the pipes
            self._popen.kill()


class Mortal(psutil.Process):
    """A process that is gone just before it is killed."""

    def kill(self) -> None:
        super().kill()
        self.wait(PATIENCE_SECONDS)
        super().kill()


class Functions:
    """Stand-in for an embedded AWS: the live processes of a function."""

    def __init__(self, sandbox: PaymentSandbox, ends: ExitStack) -> None:
        self._port = urlsplit(sandbox.url).port or 0
        self._ends = ends
        self._started: list[tuple[str, Process]] = []

    def start(self, function: str) -> Process:
        process = Process(self._port)
        self._ends.callback(process.end)
        process.connect()
        self._started.append((function, process))
        return process

    def function_processes(self, function_name: str) -> list[psutil.Process]:
        return [p.seen for name, p in self._started if name == function_name and p.lives]


@pytest.fixture
def sandbox() -> Iterator[PaymentSandbox]:
    """A provider that holds every charge before it is made, until somebody lets it go on."""
    with payment_sandbox(
        FaultRates(shares={PaymentFault.HOLD_BEFORE: 1}, hold_seconds=LONG_SECONDS)
    ) as held:
        yield held


@pytest.fixture
def functions(sandbox: PaymentSandbox) -> Iterator[Functions]:
    with ExitStack() as ends:
        yield Functions(sandbox, ends)


@contextmanager
def killing_in(functions: Functions, sandbox: PaymentSandbox) -> Iterator[ProcessKills]:
    with kill_processes(cast(EmbeddedAws, functions), sandbox, CHARGING, [RELAY, ORDERS]) as kills:
        yield kills


def wait_until_charged(sandbox: PaymentSandbox, times: int = 1) -> None:
    wait_until("charged", lambda: len(sandbox.charges()) == times, timeout=PATIENCE_SECONDS)


def test_the_process_that_waits_for_the_charge_is_killed_and_no_other(
    functions: Functions, sandbox: PaymentSandbox
) -> None:
    idle, waiting, idle_too = [functions.start(CHARGING) for _ in range(3)]
    relay = functions.start(RELAY)
    with killing_in(functions, sandbox) as kills:
        waiting.charge()
        assert waiting.status() == -signal.SIGKILL
        wait_until_charged(sandbox)
    assert kills.killed == {CHARGING: 1}
    assert idle.lives
    assert idle_too.lives
    assert relay.lives


def test_a_charge_of_somebody_else_merely_goes_on(
    functions: Functions, sandbox: PaymentSandbox
) -> None:
    idle, stranger = functions.start(CHARGING), functions.start(ORDERS)
    with killing_in(functions, sandbox) as kills:
        stranger.charge()
        assert stranger.status() == 0  # it has its answer
    assert not kills.killed
    assert idle.lives


def test_now_and_then_one_of_the_others_is_killed_in_turn(
    functions: Functions, sandbox: PaymentSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.process_kills.CHARGES_PER_OTHER_KILL", 2)
    relay, relay_too, orders, orders_too = [
        functions.start(name) for name in (RELAY, RELAY, ORDERS, ORDERS)
    ]
    victims = {2: relay, 4: orders, 6: relay_too}
    with killing_in(functions, sandbox) as kills:
        for times in range(1, 7):
            functions.start(CHARGING).charge()
            wait_until_charged(sandbox, times)
            assert kills.killed.total() == times + times // 2
            if times in victims:
                assert victims[times].status() == -signal.SIGKILL
    assert kills.killed == {CHARGING: 6, RELAY: 2, ORDERS: 1}
    assert orders_too.lives


def test_a_process_that_is_gone_already_is_not_counted(
    functions: Functions, sandbox: PaymentSandbox
) -> None:
    waiting, relay = functions.start(CHARGING), functions.start(RELAY)
    waiting.seen = Mortal(waiting.seen.pid)
    with killing_in(functions, sandbox) as kills:
        waiting.charge()
        wait_until_charged(sandbox)
        assert not kills.killed
        assert relay.lives  # no charge was killed, so none of the others is due
        again = functions.start(CHARGING)
        again.charge()
        assert again.status() == -signal.SIGKILL


def test_another_that_is_gone_already_is_not_counted(
    functions: Functions, sandbox: PaymentSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.process_kills.CHARGES_PER_OTHER_KILL", 1)
    waiting, relay = functions.start(CHARGING), functions.start(RELAY)
    relay.seen = Mortal(relay.seen.pid)
    with killing_in(functions, sandbox) as kills:
        waiting.charge()
        wait_until_charged(sandbox)
    assert kills.killed == {CHARGING: 1}


def test_where_another_has_no_process_nothing_more_is_killed(
    functions: Functions, sandbox: PaymentSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.process_kills.CHARGES_PER_OTHER_KILL", 1)
    with killing_in(functions, sandbox) as kills:
        functions.start(CHARGING).charge()
        wait_until_charged(sandbox)
    assert kills.killed == {CHARGING: 1}


def kill_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "process kills"]


def test_it_ends_with_its_context(functions: Functions, sandbox: PaymentSandbox) -> None:
    with killing_in(functions, sandbox):
        assert kill_threads()
    assert not kill_threads()
    late = functions.start(CHARGING)
    late.charge()
    assert sandbox.held.get(timeout=PATIENCE_SECONDS)
    assert late.lives


def test_it_ends_with_a_context_that_fails(functions: Functions, sandbox: PaymentSandbox) -> None:
    with pytest.raises(ZeroDivisionError), killing_in(functions, sandbox):
        _ = 1 / 0
    assert not kill_threads()
