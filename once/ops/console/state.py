"""State of a running console: what it shows, and what it remembers while it runs."""

from dataclasses import dataclass, field
from typing import cast

from starlette.requests import Request

from once.ops.aws.deployment import Deployment
from once.ops.console.changes import Changes
from once.ops.console.jobs import Jobs


@dataclass(frozen=True, slots=True)
class ConsoleState:
    """A running console.

    Attributes:
        deployment: the deployment that it shows.
        read_only: whether it offers and accepts no change.
        changes: tells open pages that something changed.
        jobs: plans that wait for a confirmation, and changes that run or have run.
    """

    deployment: Deployment
    read_only: bool = False
    changes: Changes = field(default_factory=Changes)
    jobs: Jobs = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "jobs", Jobs(self.changes))


def state_of(request: Request) -> ConsoleState:
    """Return the state of the console that answers a request."""
    return cast(ConsoleState, request.app.state.console)
