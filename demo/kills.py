"""Process kills: of a function during its charge, and of functions by turns, within a context."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from queue import Empty
from threading import Event

import psutil

from demo.background import background
from demo.payment_sandbox import PaymentSandbox
from emulator.embedded_aws import EmbeddedAws

_POLL_SECONDS = 0.05
CHARGES_PER_OTHER_KILL = 4
"""Number of processes killed during a charge for each process of another function."""


@contextmanager
def kill_processes(
    aws: EmbeddedAws, sandbox: PaymentSandbox, charging: str, others: Sequence[str]
) -> Iterator[Counter[str]]:
    """Kill the processes that wait for a charge that the sandbox holds, until the context ends.

    Args:
        aws: the AWS that the functions run on.
        sandbox: the payment provider, which holds some charges.
        charging: name of the function that charges.
        others: names of functions of which a process is sometimes killed.

    Yields:
        The number of killed processes by function.
    """
    killed: Counter[str] = Counter()
    turns = cycle(others)

    def kill_client(port: int) -> None:
        for process in aws.function_processes(charging):
            if port in _local_ports(process) and _killed(process):
                killed[charging] += 1
                if killed[charging] % CHARGES_PER_OTHER_KILL == 0 and (other := next(turns, None)):
                    _kill(aws.function_processes(other)[:1], other, killed)

    def work(over: Event) -> None:
        while not over.is_set():
            with suppress(Empty):
                held = sandbox.held.get(timeout=_POLL_SECONDS)
                kill_client(held.client_port)
                held.release()

    with background("process kills", work):
        yield killed


@contextmanager
def kill_periodically(
    aws: EmbeddedAws, functions: Sequence[str], *, period: float, most: int
) -> Iterator[Counter[str]]:
    """Kill the processes of one function after the other until the context ends.

    Args:
        aws: the AWS that the functions run on.
        functions: their names.
        period: the time between two kills, in seconds.
        most: the number of processes after which it ends.

    Yields:
        The number of killed processes by function.
    """
    killed: Counter[str] = Counter()

    def work(over: Event) -> None:
        turns = cycle(functions)
        while killed.total() < most and not over.wait(period):
            function = next(turns)
            _kill(aws.function_processes(function), function, killed)

    with background("periodic kills", work):
        yield killed


def _kill(processes: Sequence[psutil.Process], function: str, killed: Counter[str]) -> None:
    for process in processes:
        if _killed(process):
            killed[function] += 1


def _killed(process: psutil.Process) -> bool:
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
