"""Random kills of function processes."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from threading import Event

import psutil

from emulator.embedded_aws import EmbeddedAws

POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ProcessKills:
    """Kills function processes at a rate relative to the calls that they make.

    At a rate relative to time, a slow machine would lose each process before it had begun.

    Attributes:
        aws: where the functions run.
        functions: their names; each is killed with the same probability.
        calls: returns the number of calls that the functions have made.
        every: mean number of calls between two kills.
        seed: of the choice.
        killed: number of killed processes by function.
    """

    aws: EmbeddedAws
    functions: Sequence[str]
    calls: Callable[[], int]
    every: float
    seed: int
    killed: Counter[str] = field(default_factory=Counter)

    def run(self, over: Event) -> None:
        """Kill processes until the event is set."""
        random = Random(self.seed)
        due = random.expovariate(1 / self.every)
        while not over.wait(POLL_SECONDS):
            if self.calls() >= due:
                self._kill_one(random)
                due = self.calls() + random.expovariate(1 / self.every)

    def _kill_one(self, random: Random) -> None:
        name = random.choice(self.functions)
        if processes := self.aws.function_processes(name):
            with suppress(psutil.NoSuchProcess):
                random.choice(processes).kill()
                self.killed[name] += 1
