"""Kills end the process that waits for a held charge, and others in turn."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import cast
from urllib.parse import urlsplit

import psutil
import pytest

from demo.kills import kill_processes
from demo.payment_sandbox import FaultRates, PaymentFault, PaymentSandbox, payment_sandbox
from demo.quiescence import wait_until
from emulator.embedded_aws import EmbeddedAws

CHARGING, RELAY, ORDERS = "once-payments", "once-outbox_relay", "once-orders"
TIMEOUT = 20
# A function's process: it connects to the provider, and sends its standard input.
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


class FunctionProcess:
    """A process of a function that is connected to the provider."""

    def __init__(self, port: int) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-c", PROCESS, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.process = psutil.Process(self._popen.pid)
        assert self._popen.stdout is not None
        assert self._popen.stdout.readline() == b"connected\n"

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def charge(self) -> None:
        """Request a charge, and wait for the answer in the background."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(REQUEST)
        self._popen.stdin.close()

    def status(self) -> int:
        return self._popen.wait(TIMEOUT)

    def end(self) -> None:
        with self._popen:  # closes the pipes
            self._popen.kill()


class Functions:
    """The processes of a deployment's functions, in place of an embedded AWS; and its provider."""

    def __init__(self, sandbox: PaymentSandbox) -> None:
        self.sandbox = sandbox
        self.started: list[tuple[str, FunctionProcess]] = []

    def start(self, function: str) -> FunctionProcess:
        started = FunctionProcess(urlsplit(self.sandbox.url).port or 0)
        self.started.append((function, started))
        return started

    def function_processes(self, function_name: str) -> list[psutil.Process]:
        return [p.process for name, p in self.started if name == function_name and p.alive]

    def kills(self) -> AbstractContextManager[Counter[str]]:
        return kill_processes(cast(EmbeddedAws, self), self.sandbox, CHARGING, [RELAY, ORDERS])

    def wait_until_charged(self, times: int = 1) -> None:
        wait_until("charged", lambda: len(self.sandbox.charges()) == times, timeout=TIMEOUT)


@pytest.fixture
def functions() -> Iterator[Functions]:
    """Functions whose provider holds every charge before it is made."""
    faults = FaultRates(shares={PaymentFault.HOLD_BEFORE: 1}, hold_seconds=3600)
    with payment_sandbox(faults) as sandbox:
        running = Functions(sandbox)
        try:
            yield running
        finally:
            for _, process in running.started:
                process.end()


def test_only_the_process_of_the_held_charge_is_killed(functions: Functions) -> None:
    idle, charging, other = [functions.start(CHARGING) for _ in range(3)]
    relay = functions.start(RELAY)
    with functions.kills() as killed:
        charging.charge()
        assert charging.status() == -signal.SIGKILL
        functions.wait_until_charged()
    assert killed == {CHARGING: 1}
    assert idle.alive
    assert other.alive
    assert relay.alive


def test_other_functions_are_killed_in_turn(
    functions: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.kills.CHARGES_PER_OTHER_KILL", 2)
    names = (RELAY, RELAY, ORDERS, ORDERS)
    relay, second_relay, orders, second_orders = [functions.start(name) for name in names]
    due = {2: relay, 4: orders, 6: second_relay}
    with functions.kills() as killed:
        for times in range(1, 7):
            functions.start(CHARGING).charge()
            functions.wait_until_charged(times)
            assert killed.total() == times + times // 2
            if times in due:
                assert due[times].status() == -signal.SIGKILL
    assert killed == {CHARGING: 6, RELAY: 2, ORDERS: 1}
    assert second_orders.alive
