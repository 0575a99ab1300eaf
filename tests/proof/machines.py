"""What the rule machines share: a world whose functions go on by turns, and meet what rules say.

A machine begins functions, lets one or the other go on to its next call, and lets time pass. What
its calls meet is drawn together with the function, one after the other: most often nothing.
"""

import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from aws_lambda_powertools import Logger
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from proof.shop.clients import clients
from proof.shop.operator import on_time
from proof.shop.service import DEDUP, url
from proof.world.calls import Call
from proof.world.expressions import plain
from proof.world.faults import Fault
from proof.world.plan import Action, Occasion, Plan
from proof.world.queues import Queue
from proof.world.tasks import Killed, Process, Task
from proof.world.topics import Subscribers
from proof.world.world import World

_EXAMPLES = "ONCE_MACHINE_EXAMPLES"
_TURN_SECONDS = 0.05
"""Longer than any call that is answered: at the next turn, whoever was at one can go on."""


def quick(examples: int) -> settings:
    """Return the settings of a machine: the same runs each time, unless more of them are wanted."""
    return settings(
        deadline=None,
        database=None,
        derandomize=_EXAMPLES not in os.environ,
        max_examples=int(os.environ.get(_EXAMPLES, examples)),
        stateful_step_count=25,
        suppress_health_check=[HealthCheck.too_slow],
    )


class Trouble(NamedTuple):
    """What a call meets, where it can: see `proof.world.plan.Action`."""

    what: Fault
    lasting: bool
    position: int
    seconds: float


_TROUBLE = st.builds(
    Trouble,
    st.sampled_from(Fault),
    st.booleans(),
    st.integers(0, 5),
    st.sampled_from([0.1, 5.0, 60.0]),
)
TROUBLES = st.lists(st.one_of(st.none(), _TROUBLE, _TROUBLE), max_size=10)
PICKS = st.lists(st.integers(0, 3), min_size=1, max_size=15)
"""Which of the functions under way goes on, turn by turn; counted round."""

LOGGER = Logger(service="machines", level="CRITICAL")
NO_METRICS: Any = SimpleNamespace(
    metric_set={},
    add_metric=lambda **_: None,
    add_dimension=lambda *_: None,
    flush_metrics=lambda: None,
)


class Stage(World):
    """A world of which a machine is the director.

    Args:
        keys: the key attribute of each business table.
        queues: every queue.
        subscribers: the queues that subscribe to each type of each topic.

    Attributes:
        hear: told of each call before anything becomes of it; what it raises is the answer.
    """

    def __init__(
        self,
        keys: Mapping[str, str],
        queues: Iterable[Queue],
        subscribers: Subscribers | None = None,
    ) -> None:
        clients().forget()
        by_url = {url(queue): queue for queue in queues}
        tables = {DEDUP: "pk", **keys}
        super().__init__(tables, DEDUP, by_url, subscribers or {}, Plan(self._drawn), seed=0)
        self.hear: Callable[[Call], object] = lambda _: None
        self._troubles: dict[Process, list[Trouble | None]] = {}
        self._running: list[Task] = []
        self._opened = ExitStack()
        self._opened.enter_context(self.open())
        self._opened.enter_context(on_time(self.tasks.clock))

    @property
    def running(self) -> int:
        """How many functions are under way."""
        return len(self._running)

    def start(
        self,
        name: str,
        seconds: float,
        work: Callable[[Process], object],
        troubles: Sequence[Trouble | None] = (),
    ) -> None:
        """Begin a function that is killed after so many seconds; `work` is given its process."""
        process = Process(f"{name}-{len(self._troubles)}", self.tasks.now + seconds)
        self._troubles[process] = list(troubles)
        self._running.append(self.tasks.start(process, partial(work, process)))

    def turn(self, pick: int) -> None:
        """Let a function go on to its next call; where all of them wait, let time pass.

        Raises:
            Exception: whatever the function raised.
        """
        self.tasks.now += _TURN_SECONDS
        self.tasks.fire()
        if ready := self.tasks.ready:
            self.tasks.run(ready[pick % len(ready)])
        elif self.tasks.next_time < math.inf:
            self.tasks.now = max(self.tasks.now, self.tasks.next_time)
        for task in [task for task in self._running if task.ended]:
            self._running.remove(task)
            if task.error is not None and not isinstance(task.error, Killed):
                raise task.error

    def rest(self) -> None:
        """Let everything go on that is under way, to its end."""
        while self._running or self.tasks.next_time < math.inf:
            self.turn(0)

    def close(self, end: Callable[[], object]) -> None:
        """End a machine: unless a rule has failed already, `end` looks how all ends."""
        try:
            if sys.exc_info()[0] is None:
                end()
        finally:
            for task in self._running:
                self.tasks.kill(task.process)
            self._opened.close()

    def respond(self, call: Call) -> Any:
        """Do a call, or let it meet what is planned; see `World.respond`."""
        self.hear(call)
        return super().respond(call)

    @property
    def process(self) -> Process:
        """The process that is at its turn."""
        assert self.tasks.current is not None
        return self.tasks.current.process

    def rows(self, table: str) -> dict[str, dict[str, Any]]:
        """Return the items of a table, by key, as Python has them."""
        return {
            key: {name: plain(value) for name, value in item.items()}
            for key, item in self.tables.items[table].items()
        }

    def _drawn(self, occasion: Occasion) -> Action | None:
        troubles = self._troubles[self.process]
        trouble = troubles.pop(0) if troubles else None
        if trouble is None or trouble.what not in occasion.possible:
            return None
        return Action(occasion.place, occasion.number, *trouble)
