"""State of a running console: what it shows, and what it remembers while it runs."""

from dataclasses import dataclass, field
from functools import partial
from typing import cast

from starlette.requests import Request

from once.ops.aws.deployment import Deployment
from once.ops.console.changes import Changes
from once.ops.console.figures import RecentFigures
from once.ops.console.jobs import Jobs
from once.ops.console.kept import KeptReadings
from once.ops.console.letter_reading import LetterReadings
from once.ops.console.queue_history import QueueHistory
from once.ops.status import read_status


@dataclass(frozen=True, slots=True)
class ConsoleState:
    """A running console.

    Attributes:
        deployment: the deployment that it shows.
        read_only: whether it offers and accepts no change.
        changes: tells open pages that something changed.
        letters: the last readings of dead letters.
        jobs: plans that wait for a confirmation, and changes that run or have run.
        queues: the status of the queues in the last minutes.
        figures: what the consumers' functions counted in the last hour.
        kept: what pages have read that is not repeated at each refresh.
    """

    deployment: Deployment
    read_only: bool = False
    changes: Changes = field(default_factory=Changes)
    letters: LetterReadings = field(default_factory=LetterReadings)
    jobs: Jobs = field(init=False)
    queues: QueueHistory = field(init=False)
    figures: RecentFigures = field(init=False)
    kept: KeptReadings = field(default_factory=KeptReadings)

    def __post_init__(self) -> None:
        read = partial(read_status, self.deployment)
        object.__setattr__(self, "jobs", Jobs(self.changes))
        object.__setattr__(self, "queues", QueueHistory(read, self.changes))
        functions = [one.function_name for one in self.deployment.consumers.values()]
        object.__setattr__(self, "figures", RecentFigures(functions))


def state_of(request: Request) -> ConsoleState:
    """Return the state of the console that answers a request."""
    return cast(ConsoleState, request.app.state.console)
