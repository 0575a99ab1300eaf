"""Periodic kills: kills the processes of some functions by turns, while a context lasts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from threading import Event, Thread

from demo.process_kills import kill
from emulator.embedded_aws import EmbeddedAws

_PERIOD_SECONDS = 1.5
_MOST = 12
"""Each kill lets the message groups of a batch wait for a visibility timeout."""


@dataclass
class PeriodicKills:
    """Kills every 1.5 seconds, twelve times at most.

    Attributes:
        aws: the AWS that the functions run on.
        functions: their names.
        count: the number of processes that were killed.
    """

    aws: EmbeddedAws
    functions: Sequence[str]
    count: int = 0
    over: Event = field(default_factory=Event)

    def run(self) -> None:
        """Kill until there were enough, or until `over` is set."""
        turns = cycle(self.functions)
        while self.count < _MOST and not self.over.wait(_PERIOD_SECONDS):
            self.count += sum(map(kill, self.aws.function_processes(next(turns))))


@contextmanager
def kill_periodically(aws: EmbeddedAws, functions: Sequence[str]) -> Iterator[PeriodicKills]:
    """Kill the functions' processes by turns until the context ends."""
    kills = PeriodicKills(aws, functions)
    thread = Thread(target=kills.run, name="periodic kills", daemon=True)
    thread.start()
    try:
        yield kills
    finally:
        kills.over.set()
        thread.join()
