"""Base of the rule machines: a world whose functions advance by rules, with drawn faults.

A machine starts functions, advances them from call to call, and lets time pass. The faults of a
function's calls are drawn with it; most calls have none.
"""

import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from proof.operator import on_time
from proof.service import DEDUP, url
from proof.world.calls import Call
from proof.world.clients import clients
from proof.world.expressions import plain
from proof.world.faults import Action, Fault, InjectionPoint, Plan
from proof.world.queues import Queue, Subscribers
from proof.world.tasks import Killed, Process, Task
from proof.world.world import World

_EXAMPLES = "ONCE_MACHINE_EXAMPLES"
_STEP_SECONDS = 0.05
"""Longer than any call with an answer: in the next step, its function is ready."""


def quick(examples: int) -> settings:
    """Return a machine's settings; its runs are random only if the variable asks for more."""
    return settings(
        deadline=None,
        database=None,
        derandomize=_EXAMPLES not in os.environ,
        max_examples=int(os.environ.get(_EXAMPLES, examples)),
        stateful_step_count=25,
        suppress_health_check=[HealthCheck.too_slow],
    )


class CallFault(NamedTuple):
    """The fault of a call, if it is possible there; see `proof.world.faults.Action`."""

    what: Fault
    lasting: bool
    position: int
    seconds: float


_FAULT = st.builds(
    CallFault,
    st.sampled_from(Fault),
    st.booleans(),
    st.integers(0, 5),
    st.sampled_from([0.1, 5.0, 60.0]),
)
FAULTS = st.lists(st.one_of(st.none(), _FAULT, _FAULT), max_size=10)
Faults = Sequence[CallFault | None]
PICKS = st.lists(st.integers(0, 3), min_size=1, max_size=15)
"""The function that advances in each step, modulo their number."""


class Stage(World):
    """A world that a machine controls.

    Args:
        keys: the key attribute of each business table.
        queues: every queue.
        subscribers: the queues that subscribe to each type of each topic.

    Attributes:
        observe: called with each call before it is executed; its error is the answer.
    """

    def __init__(
        self,
        keys: Mapping[str, str],
        queues: Iterable[Queue],
        subscribers: Subscribers | None = None,
    ) -> None:
        clients().reset()
        by_url = {url(queue): queue for queue in queues}
        tables = {DEDUP: "pk", **keys}
        super().__init__(tables, DEDUP, by_url, subscribers or {}, Plan(self._fault), seed=0)
        self.observe: Callable[[Call], object] = lambda _: None
        self._faults: dict[Process, list[CallFault | None]] = {}
        self._running: list[Task] = []
        self._opened = ExitStack()
        self._opened.enter_context(self.open())
        self._opened.enter_context(on_time(self.tasks.clock))

    @property
    def running(self) -> int:
        """The number of running functions."""
        return len(self._running)

    @property
    def process(self) -> Process:
        """The process of the running task."""
        assert self.tasks.current is not None
        return self.tasks.current.process

    def start(
        self, name: str, seconds: float, work: Callable[[Process], object], faults: Faults = ()
    ) -> None:
        """Start a function in a process that is killed after some seconds."""
        process = Process(f"{name}-{len(self._faults)}", self.tasks.now + seconds)
        self._faults[process] = list(faults)
        self._running.append(self.tasks.start(process, partial(work, process)))

    def step(self, pick: int) -> None:
        """Advance a function to its next call; let time pass if none is ready.

        Raises:
            Exception: the function's error.
        """
        self.tasks.now += _STEP_SECONDS
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
        """Run everything to its end."""
        while self._running or self.tasks.next_time < math.inf:
            self.step(0)

    def close(self) -> None:
        """End all functions, and restore what the world has patched."""
        self.tasks.kill_all()
        self._opened.close()

    def respond(self, call: Call) -> Any:
        """Execute a call; see `World.respond`."""
        self.observe(call)
        return super().respond(call)

    def rows(self, table: str) -> dict[str, dict[str, Any]]:
        """Return a table's items by key, as plain values."""
        return {
            key: {name: plain(value) for name, value in item.items()}
            for key, item in self.tables.items[table].items()
        }

    def _fault(self, point: InjectionPoint) -> Action | None:
        faults = self._faults[self.process]
        fault = faults.pop(0) if faults else None
        if fault is None or fault.what not in point.possible:
            return None
        return Action(point.place, point.number, *fault)


class Machine(RuleBasedStateMachine):
    """A machine on a stage. Its invariants must also hold in the end, after `recover`."""

    stage: Stage

    def recover(self) -> None:
        """Process everything that is left, without faults, and check the result."""
        raise NotImplementedError

    def advance(self, picks: Iterable[int], seconds: float = 0) -> None:
        """Let time pass, and advance functions."""
        self.stage.tasks.now += seconds
        for pick in picks:
            self.stage.step(pick)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # no rule has failed
                self.stage.rest()
                self.recover()
                for invariant in self.invariants:
                    invariant.function(self)
        finally:
            self.stage.close()
