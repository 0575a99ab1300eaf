"""Process kills: of a function during its charge, and of functions at random, within a context."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from queue import Empty
from random import Random
from threading import Event

import psutil

from demo.background import background
from demo.payment_sandbox import PaymentSandbox
from emulator.embedded_aws import EmbeddedAws

_POLL_SECONDS = 0.02
CHARGES_PER_OTHER_KILL = 4
"""Number of processes killed during a charge for each process of another function."""


@contextmanager
def kill_processes(
    aws: EmbeddedAws, sandbox: PaymentSandbox, charging: str, others: Sequence[str]
) -> Iterator[Counter[str]]:
    """Kill the processes that wait for a charge that the sandbox holds, until the context ends.

    Now and then a process of the other functions is killed as well. Yields the number of killed
    processes by function.
    """
    killed: Counter[str] = Counter()
    turns = cycle(others)

    def kill_client(port: int) -> None:
        for process in aws.function_processes(charging):
            if not _sends_from(process, port):
                continue
            _kill(process, charging, killed)
            if killed[charging] % CHARGES_PER_OTHER_KILL == 0 and (other := next(turns, None)):
                for first in aws.function_processes(other)[:1]:
                    _kill(first, other, killed)

    def work(over: Event) -> None:
        while not over.is_set():
            with suppress(Empty):
                held = sandbox.held.get(timeout=_POLL_SECONDS)
                kill_client(held.client_port)
                held.released.set()

    with background("process kills", work):
        yield killed


@contextmanager
def kill_at_random(
    aws: EmbeddedAws,
    functions: Sequence[str],
    *,
    every: float,
    clock: Callable[[], float] = time.monotonic,
    most: float = math.inf,
    seed: int | None = None,
) -> Iterator[Counter[str]]:
    """Kill processes of functions until the context ends, each function as often as the others.

    A clock that counts the functions' calls kills on a slow machine as often as on a fast one.

    Args:
        aws: the AWS that the functions run on.
        functions: their names.
        every: mean time between two kills.
        clock: returns a time in any unit, by default in seconds.
        most: the number of processes after which it ends.
        seed: of the choice; random by default.

    Yields:
        The number of killed processes by function.
    """
    killed: Counter[str] = Counter()
    random = Random(seed)

    def work(over: Event) -> None:
        due = clock() + random.expovariate(1 / every)
        while killed.total() < most and not over.wait(_POLL_SECONDS):
            if clock() >= due:
                due = clock() + random.expovariate(1 / every)
                function = random.choice(functions)
                if processes := aws.function_processes(function):
                    _kill(random.choice(processes), function, killed)

    with background("random kills", work):
        yield killed


def _kill(process: psutil.Process, function: str, killed: Counter[str]) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()
        killed[function] += 1


def _sends_from(process: psutil.Process, port: int) -> bool:
    with suppress(psutil.Error):
        return any(each.laddr.port == port for each in process.net_connections("tcp4"))
    return False
