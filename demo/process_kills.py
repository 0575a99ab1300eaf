"""Process kills: kills function processes during a charge, and sometimes another function's."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from queue import Empty
from threading import Event, Thread

import psutil

from demo.payment_sandbox import PaymentSandbox
from emulator.embedded_aws import EmbeddedAws

_POLL_SECONDS = 0.05
CHARGES_PER_OTHER_KILL = 4
"""Number of processes killed during a charge for each process of another function."""


class ProcessKills:
    """Kills the processes that wait for a charge that the sandbox holds.

    Attributes:
        killed: number of killed processes by function.
    """

    def __init__(
        self, aws: EmbeddedAws, sandbox: PaymentSandbox, charging: str, others: Sequence[str]
    ) -> None:
        self.killed: Counter[str] = Counter()
        self._aws = aws
        self._sandbox = sandbox
        self._charging = charging
        self._others = cycle(others)
        self._over = Event()

    def run(self) -> None:
        """Kill processes until `stop` is called."""
        while not self._over.is_set():
            with suppress(Empty):
                held = self._sandbox.held.get(timeout=_POLL_SECONDS)
                self._kill_client(held.client_port)
                held.release()

    def stop(self) -> None:
        """Let `run` return."""
        self._over.set()

    def _kill_client(self, port: int) -> None:
        for process in self._aws.function_processes(self._charging):
            if port in _local_ports(process) and self._kill(self._charging, process):
                self._maybe_kill_another()

    def _maybe_kill_another(self) -> None:
        function = (
            next(self._others, None)
            if self.killed[self._charging] % CHARGES_PER_OTHER_KILL == 0
            else None
        )
        if function is not None:
            for process in self._aws.function_processes(function)[:1]:
                self._kill(function, process)

    def _kill(self, function: str, process: psutil.Process) -> bool:
        if not kill(process):
            return False
        self.killed[function] += 1
        return True


@contextmanager
def kill_processes(
    aws: EmbeddedAws, sandbox: PaymentSandbox, charging: str, others: Sequence[str]
) -> Iterator[ProcessKills]:
    """Kill function processes until the context ends.

    Args:
        aws: the AWS that the functions run on.
        sandbox: the payment provider, which holds some charges.
        charging: name of the function that charges.
        others: names of functions of which a process is sometimes killed.
    """
    kills = ProcessKills(aws, sandbox, charging, others)
    thread = Thread(target=kills.run, name="process kills", daemon=True)
    thread.start()
    try:
        yield kills
    finally:
        kills.stop()
        thread.join()


def kill(process: psutil.Process) -> bool:
    """Kill a process; return False if it has already ended."""
    with suppress(psutil.NoSuchProcess):
        process.kill()
        return True
    return False


def _local_ports(process: psutil.Process) -> set[int]:
    try:
        return {connection.laddr.port for connection in process.net_connections("tcp4")}
    except psutil.Error:
        return set()
