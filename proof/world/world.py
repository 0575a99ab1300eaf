"""The world: all services, the time, and the fault of each call."""

import inspect
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import Any
from unittest.mock import patch

from once.intake.reader import Delivery, RecordReader
from once.runtime.deadline import Deadline
from proof.world.calls import PROVIDER, Call, NoAnswer, ServiceError, connected, new_owners
from proof.world.faults import SAVED, Action, Fault, Plan, refusal
from proof.world.queues import Queue, Queues, Subscribers, Topics
from proof.world.schedules import Schedules
from proof.world.services import SECRET, Mail, Objects, Provider, Secrets, Workflows
from proof.world.tables import Tables
from proof.world.tasks import START, Killed, Pool, Process, Task, Tasks

TIMEOUT_SECONDS = {PROVIDER: 6.0}
"""Timeout of a caller; one second for AWS, as `once.runtime.sdk` configures it."""

_OF_EFFECTS = (PROVIDER, "email", "states", "lambda")
"""The services that only effects call."""

_THREAD_POOLS = (
    "once.batch.processor.ThreadPoolExecutor",
    "once.effects.concurrent_calls.ThreadPoolExecutor",
    "once.ops.dead_letters.queue_walk.ThreadPoolExecutor",
    "once.ops.republication.ThreadPoolExecutor",
    "once.outbox.due_events.ThreadPoolExecutor",
)
_signature = cache(inspect.signature)


class World:
    """Everything outside of the functions. The seed is that of all random choices but faults.

    Attributes:
        log: the trace, a line for each call.
        owners: the process that made each owner token of a pending effect.
        disturbed: the processes of which a call had a fault.
        fatal: the bodies that no process survives reading.
        early: the calls of effects that began before the first one in their function was answered.
        charging: the process of each request that reached the provider of payments.
    """

    def __init__(
        self,
        keys: Mapping[str, str],
        dedup: str,
        queues: Mapping[str, Queue],
        subscribers: Subscribers,
        plan: Plan,
        seed: int,
    ) -> None:
        self.tasks = Tasks()
        self.plan = plan
        self.random = random.Random(f"turns {seed}")
        self.tables = Tables(keys, dedup, self.tasks.clock)
        self.queues = Queues(self.tasks.clock, queues)
        self.topics = Topics(self.queues, subscribers, self.tasks.clock)
        self.schedules = Schedules(self.tasks, self.topics, plan, self.random)
        self.provider = Provider(self.tasks.clock)
        self.mail = Mail()
        self.secrets = Secrets(self.tasks.clock, SECRET)
        self.objects = Objects()
        self.workflows = Workflows(self.tasks.clock)
        self.log: list[str] = []
        self.owners: dict[str, Process] = {}
        self.disturbed: set[Process] = set()
        self.fatal: frozenset[str] = frozenset()
        self.early: list[str] = []
        self.charging: list[Process] = []
        self._calling: Counter[Process] = Counter()
        self._seed = seed

    @contextmanager
    def open(self) -> Iterator[None]:
        """Redirect the calls, sleeps and thread pools of this Python process to this world."""
        sleep = time.sleep

        def wait(seconds: float) -> None:
            (self.tasks.pause if self.tasks.current else sleep)(seconds)

        def read_or_die(reader: RecordReader, delivery: Delivery, deadline: Deadline) -> Any:
            task, record = self.tasks.current, delivery.record
            if task and (record["body"] in self.fatal or record["messageId"] == task.process.fatal):
                self._kill_caller()
            return read(reader, delivery, deadline)

        read = RecordReader.read
        with ExitStack() as stack:
            stack.enter_context(connected(self.respond))
            stack.enter_context(patch.object(time, "sleep", wait))
            stack.enter_context(patch.object(RecordReader, "read", read_or_die))
            # Takes the time of several calls in each cold start, and never changes.
            stack.enter_context(patch.object(inspect, "signature", _signature))
            for pool in _THREAD_POOLS:
                stack.enter_context(patch(pool, lambda *_: self.pool()))
            stack.enter_context(patch("once.effects.concurrent_calls.wait", self._wait))
            random.seed(self._seed)
            yield

    def timers_of(self, call: Call) -> Tasks:
        """Return the timers of a call that takes effect later."""
        del call
        return self.tasks

    def pool(self) -> Pool:
        """Return a thread pool for the running task."""
        return Pool(self.tasks)

    def _wait(self, *arguments: Any, **more: Any) -> Any:
        return self.pool().wait(*arguments, **more)

    def respond(self, call: Call) -> Any:
        """Execute a call, with its planned fault.

        Raises:
            ServiceError: the error response.
            NoAnswer: the caller gets no answer.
            Killed: the calling process is killed.
        """
        task = self.tasks.current
        if task is None or call.service not in _OF_EFFECTS:
            return self._answer(call, task)
        process = task.process
        if process.knows_nothing and self._calling[process]:
            self.early.append(call.place)
        self._calling[process] += 1
        try:
            return self._answer(call, task)
        finally:
            self._calling[process] -= 1
            process.knows_nothing = False

    def _answer(self, call: Call, task: Task | None) -> Any:
        if task is not None:
            self.owners |= dict.fromkeys(new_owners(call), task.process)
        action = self._planned(call)
        if action is not None and task is not None:
            self.disturbed.add(task.process)
        fault = f"  ** {action.what} **" if action else ""
        name = task.process.name if task else "-"
        self.log.append(
            f"{self.tasks.now - START:10.3f} {name}: {call.site} "
            f"{call.service}.{call.operation}{fault}"
        )
        return self.do(call) if action is None else self._with_fault(call, action)

    def do(self, call: Call) -> Any:
        """Execute a call without a fault.

        Raises:
            ServiceError: the error response.
        """
        match call.service:
            case "dynamodb":
                return self.tables.answer(call.operation, call.request)
            case "sqs":
                return self.queues.answer(call.operation, call.request)
            case "sns":
                return self.topics.answer(call.request)
            case "scheduler":
                return self.schedules.answer(call.request)
            case "email":
                return self.mail.answer(call.request)
            case "secretsmanager":
                return self.secrets.answer(call.request)
            case "s3":
                return self.objects.answer(call.operation, call.request)
            case "states" | "lambda":
                return self.workflows.answer(call.operation, call.request)
        if self.tasks.current is not None:
            self.charging.append(self.tasks.current.process)
        return self.provider.answer(call.request)

    def _planned(self, call: Call) -> Action | None:
        """Wait until the call is scheduled, and return its fault."""
        action = self.plan.call(call)
        self.tasks.pause(self.random.choice((0.002, 0.01, 0.05)))
        return action

    def _with_fault(self, call: Call, action: Action) -> Any:
        if action.what in (Fault.CRASH_AFTER, Fault.LOST):
            self._do_unanswered(call)
        match action.what:
            case Fault.CRASH_BEFORE | Fault.CRASH_AFTER:
                self._kill_caller()
            case Fault.LATE:
                self.timers_of(call).at(self.tasks.now + action.seconds, self._later(call))
                self._time_out(call)
            case Fault.LOST:
                self._time_out(call)
            case Fault.HALF:
                return self.topics.answer(call.request, half=True)
            case Fault.SAVED_DONE | Fault.SAVED_NOT_DONE:
                self.provider.api.script(SAVED[Fault(action.what)])
                return self.do(call)
        return refusal(call, Fault(action.what), action.position)

    def _do_unanswered(self, call: Call) -> None:
        with suppress(ServiceError):
            self.do(call)

    def _kill_caller(self) -> None:
        task = self.tasks.current
        assert task is not None  # noqa: S101
        self.tasks.kill(task.process)
        raise Killed

    def _time_out(self, call: Call) -> None:
        self.tasks.pause(TIMEOUT_SECONDS.get(call.service, 1.0))
        raise NoAnswer

    def _later(self, call: Call) -> Any:
        if call.service == PROVIDER:
            return self.provider.begin(call.request)
        return lambda: self._do_unanswered(call)
