"""Kills function processes at moments that have nothing to do with what they are at."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from threading import Event, Thread

import psutil

from emulator.embedded_aws import EmbeddedAws

POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Killer:
    """Kills one process after another, at the pace at which work goes on.

    By the clock alone, a slow machine would see each process killed before it had begun.

    Attributes:
        aws: where the functions run.
        functions: their names; each is as likely as any other.
        progress: tells how many calls the functions have made so far.
        every: how many calls there are from one kill to the next, on average.
        seed: what chance depends on.
        killed: how many processes of each function are killed so far.
    """

    aws: EmbeddedAws
    functions: Sequence[str]
    progress: Callable[[], int]
    every: float
    seed: int
    killed: Counter[str] = field(default_factory=Counter)

    def work(self, over: Event) -> None:
        """Kill until told that it is over."""
        random = Random(self.seed)
        due = random.expovariate(1 / self.every)
        while not over.wait(POLL_SECONDS):
            if self.progress() >= due:
                self._kill_one(random)
                due = self.progress() + random.expovariate(1 / self.every)

    def _kill_one(self, random: Random) -> None:
        name = random.choice(self.functions)
        processes = self.aws.function_processes(name)
        if processes and _kill(random.choice(processes)):
            self.killed[name] += 1


@contextmanager
def killing(killer: Killer) -> Iterator[None]:
    """Let a killer work for as long as the context lasts."""
    over = Event()
    thread = Thread(target=killer.work, args=[over], name="killer")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _kill(process: psutil.Process) -> bool:
    """Kill a process, if it is still there; tell whether it was."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return False
    return True
