"""Periodic kills: kills the processes of some functions by turns, while a context lasts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from threading import Event, Thread

from demo.process_kills import kill
from emulator.embedded_aws import EmbeddedAws


@dataclass
class PeriodicKills:
    """Kills the processes of one function after the other.

    Attributes:
        aws: the AWS that the functions run on.
        functions: their names.
        period: the time between two kills, in seconds.
        most: the number of processes after which it ends.
        count: the number of processes that were killed.
    """

    aws: EmbeddedAws
    functions: Sequence[str]
    period: float
    most: int
    count: int = 0
    over: Event = field(default_factory=Event)

    def run(self) -> None:
        """Kill until there were enough, or until `over` is set."""
        turns = cycle(self.functions)
        while self.count < self.most and not self.over.wait(self.period):
            self.count += sum(map(kill, self.aws.function_processes(next(turns))))


@contextmanager
def kill_periodically(
    aws: EmbeddedAws, functions: Sequence[str], *, period: float, most: int
) -> Iterator[PeriodicKills]:
    """Kill the functions' processes by turns until the context ends; see `PeriodicKills`."""
    kills = PeriodicKills(aws, functions, period, most)
    thread = Thread(target=kills.run, name="periodic kills", daemon=True)
    thread.start()
    try:
        yield kills
    finally:
        kills.over.set()
        thread.join()
