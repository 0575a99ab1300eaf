"""Base of the rule machines: a world whose functions advance by rules, with drawn faults.

On it run a consumer's function and an external provider.

A machine starts functions, advances them from call to call, and lets time pass. The faults of a
function's calls are drawn with it; most calls have none.
"""

import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

from aws_lambda_powertools import Logger
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from demo.payment_sandbox import Response
from once.consumer import Consumer, Runtime
from once.errors import KeySpent, NotDone
from once.settings import Settings, TableSettings
from once.testing.events import sqs_record
from proof.operator import on_time
from proof.service import DEDUP, Context, url
from proof.world.calls import PROVIDER, Call, site
from proof.world.clients import NO_METRICS, clients
from proof.world.expressions import plain
from proof.world.faults import Action, Fault, InjectionPoint, Plan
from proof.world.queues import Message, Queue, received
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

    Attributes:
        observe: called with each call before it is executed; its error is the answer.
    """

    def __init__(self, keys: Mapping[str, str], queues: Iterable[Queue]) -> None:
        clients().reset()
        by_url = {url(queue): queue for queue in queues}
        tables = {DEDUP: "pk", **keys}
        super().__init__(tables, DEDUP, by_url, {}, Plan(self._fault), seed=0)
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


KEY_LIFETIME = 24 * 60 * 60
"""Lifetime of an idempotency key at the provider, in seconds."""
LOGGER = Logger(service="machines", level="CRITICAL")


class Function:
    """A consumer's function behind its queue. A process stays warm unless it is killed.

    Args:
        stage: where it runs.
        consumer: its handlers.
        queue: its queue, which has dead letters.
        acknowledged: called with each message before it is deleted.
        more: fields of `once.settings.Settings` that differ from their defaults.
    """

    def __init__(
        self,
        stage: Stage,
        consumer: Consumer,
        queue: Queue,
        acknowledged: Callable[[Message], object] = lambda _: None,
        **more: Any,
    ) -> None:
        assert queue.dead_letters is not None
        self._stage = stage
        self._consumer = consumer
        self._queue = queue
        self._acknowledged = acknowledged
        self._idle: list[Any] = []
        self._settings = Settings(
            consumer=consumer.name,
            event_types=tuple(consumer.handlers),
            queue_url=url(queue),
            dead_letter_url=url(queue.dead_letters),
            dedup_table=DEDUP,
            tables={name: TableSettings(name, ("name",)) for name in consumer.tables},
            **more,
        )

    def replace(self) -> None:
        """End all warm processes."""
        self._idle.clear()

    def deliver(self, messages: Sequence[Message], faults: Faults = (), *, skew: float = 0) -> None:
        """Start an invocation with any messages; the clock of a new process is fast by `skew`."""
        records = [self._received(message) for message in messages]
        handles = {message.id: message.handles[-1] for message in messages}

        def work(process: Process) -> None:
            with self._handler(process, skew) as handle:
                answer = handle({"Records": records}, Context(process, self._stage.tasks.clock))
            failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            assert failed <= handles.keys(), "the answer names messages of another batch"
            for message in messages:
                if message.id not in failed:
                    self._acknowledged(message)
                    self._queue.delete(handles[message.id])

        self._stage.start(self._consumer.name, 30, work, faults)

    @contextmanager
    def _handler(self, process: Process, skew: float) -> Iterator[Any]:
        yield (handle := self._idle.pop() if self._idle else self._new(skew))
        if not process.dead:
            self._idle.append(handle)

    def _new(self, skew: float) -> Any:
        runtime = Runtime(
            settings=self._settings,
            dynamodb=clients().dynamodb,
            sqs=clients().sqs,
            logger=LOGGER,
            clock=lambda: self._stage.tasks.now + skew,
            sleep=self._stage.tasks.pause,
            metrics=NO_METRICS,
        )
        return self._consumer.bound_to(runtime)

    def _received(self, message: Message) -> dict[str, Any]:
        now = self._stage.tasks.now
        message.add_handle()
        message.first_received_at = message.first_received_at or now
        message.visible_at = now + self._queue.visibility
        return dict(sqs_record(received(message), f"arn:aws:sqs:us-east-1:1:{self._queue.name}"))


class Provider:
    """A provider that executes once for each key that it remembers, and each time without a key.

    Attributes:
        done: number of executions of each name.
        first_used: when each key was first used.
        saves_error: whether the next execution with a key ends in a saved error, `done` or
            `not done`.
    """

    def __init__(self, stage: Stage) -> None:
        self.done: Counter[str] = Counter()
        self.first_used: dict[str, float] = {}
        self.saves_error = ""
        self._stage = stage
        self._saved: dict[str, tuple[float, str]] = {}
        stage.provider = self  # type: ignore[assignment]

    def request(self, name: str, key: str = "") -> str:
        """Make a request from a function, with its fault.

        Raises:
            NotDone: the request was refused.
            KeySpent: the provider has saved an error for the key.
        """
        answer = self._stage.respond(Call(PROVIDER, "request", (name, key), "", site()))
        if isinstance(answer, Response):
            raise NotDone("the provider was never reached")
        if answer == "error":
            raise KeySpent("the provider has saved an error")
        return str(answer)

    def answer(self, request: tuple[str, str]) -> str:
        """Execute a request, and return `done` or a saved `error`."""
        name, key = request
        now = self._stage.tasks.now
        if not key:
            self.done[name] += 1
            return "done"
        self.first_used.setdefault(key, now)
        when, saved = self._saved.get(key, (now, ""))
        if saved and now - when < KEY_LIFETIME:
            return saved
        kind, self.saves_error = self.saves_error, ""
        self.done[name] += kind != "not done"
        self._saved[key] = (now, "error" if kind else "done")
        return self._saved[key][1]

    def begin(self, request: tuple[str, str]) -> Any:
        """Accept a late request, and return the function that executes it."""
        return lambda: self.answer(request)
