"""Scheduler: everything that can happen next in an execution, and what it costs of the bounds."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from once.names import Record, State
from proof.explore.scopes import Scope
from proof.explore.world import ScheduledWorld
from proof.invocations import Invocations
from proof.operator import redrive, settle
from proof.service import DEDUP, Place, Service
from proof.world.faults import Action
from proof.world.queues import Message, Queue
from proof.world.tasks import Process, Task

OUTAGE_SECONDS = 25 * 60 * 60
REDELIVERED = "delivered again"
DEATH = "death while reading"
_RETENTION_SECONDS = 14 * 24 * 60 * 60
"""The longest that SQS keeps a message."""
_SIDE_BY_SIDE = 2
"""The most invocations of one function at the same time."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to go on.

    Attributes:
        words: in words.
        take: does it, and returns the process that ran, if any.
        preemptions: how many it is: none or one.
        fault: the kind of fault that it is; empty where it is none.
    """

    words: str
    take: Callable[[], Process | None]
    preemptions: int = 0
    fault: str = ""

    @property
    def faults(self) -> int:
        """How many faults it is: none or one."""
        return int(bool(self.fault))


class Scheduler:
    """Lists and takes the steps of one execution.

    Args:
        scope: the scope.
        service: the service, in a `ScheduledWorld`.
        invocations: of its functions.

    Attributes:
        places: the consumers that run.
        running: the process that made the last step; None where that was no process.
        redrives: how often the operator is still to redrive.
        settles: how often the operator is still to settle effects.
        outages: how often deliveries may still be suspended.
    """

    def __init__(self, scope: Scope, service: Service, invocations: Invocations) -> None:
        assert isinstance(service.world, ScheduledWorld)  # noqa: S101
        self.world = service.world
        self.places = [service.places[name] for name in scope.running]
        self.running: Process | None = None
        self.redrives = scope.redrives
        self.settles = scope.settles
        self.outages = int(scope.outage)
        self._scope = scope
        self._service = service
        self._invocations = invocations
        self._relays: Counter[int] = Counter()

    def take(self, option: Option) -> None:
        """Take an option."""
        random.seed(0)  # jitter is the same in every step
        self.running = option.take()

    def run_to_calls(self) -> None:
        """Let what woke up go on to its next call: in between a process touches nothing."""
        while idle := [task for task in self.world.tasks.ready if task not in self.world.calls]:
            self._run(idle[0])

    def options(self) -> Iterator[Option]:
        """Yield what can happen next, first what costs least."""
        ready = self.world.tasks.ready
        current = [task for task in ready if task.process is self.running]
        other = [task for task in ready if task.process is not self.running]
        cost = int(bool(current))
        for task in (*current, *other):
            switch = 0 if task in current else cost
            yield Option(self._words(task), partial(self._run, task), switch)
        yield from self._deliveries(cost)
        if self._may_relay(ready):
            yield Option("Lambda invokes the relay", self._relay, cost)
        if self.redrives and any(place.dead_letters.waiting for place in self.places):
            yield Option("the operator redrives", self._redrive, cost)
        if self.settles and self._is_certain_outside():
            yield Option("the operator settles", self._settle, cost)
        yield from self._time(ready)
        for task in (*current, *other):
            yield from self._faults(task, 0 if task in current else cost)
        yield from self._redeliveries(cost)
        yield from self._deaths(cost)

    def _faults(self, task: Task, cost: int) -> Iterator[Option]:
        for fault in self.world.faults(task):
            where = f" at entry {fault.position}" if fault.position else ""
            after = f" after {fault.seconds:.0f} s" if fault.seconds else ""
            words = f"{self._words(task)}: {fault.what}{where}{after}"
            yield Option(words, partial(self._fail, task, fault), cost, str(fault.what))

    def _deliveries(self, cost: int) -> Iterator[Option]:
        for place, queue, batch in self._batches():
            deliver = partial(self._deliver, place, queue, batch)
            yield Option(_delivery_words(queue, batch), deliver, cost)

    def _deaths(self, cost: int) -> Iterator[Option]:
        """A function may be killed while it reads any message of its batch."""
        for place, queue, batch in self._batches():
            for message in batch:
                words = f"{_delivery_words(queue, batch)}, and reading {message.id} is fatal"
                deliver = partial(self._deliver, place, queue, batch, message.id)
                yield Option(words, deliver, cost, DEATH)

    def _batches(self) -> Iterator[tuple[Place, Queue, list[Message]]]:
        """Yield the batches that may be delivered."""
        now = self.world.tasks.now
        for place in self.places:
            for queue in place.sources if place.function.busy < _SIDE_BY_SIDE else ():
                visible = queue.deliverable(now)
                first = queue.first_of_groups(visible)
                batches = [[message] for message in _distinct(first)]
                if len(visible) > 1 and place.batch(queue) > 1:
                    batches.append(visible)
                for batch in batches:
                    yield place, queue, batch

    def _redeliveries(self, cost: int) -> Iterator[Option]:
        """A standard queue may deliver again what is deleted, or what a function is working on."""
        for place in self.places:
            for message in () if place.line.fifo else place.queue.messages.values():
                if place.function.busy < _SIDE_BY_SIDE and self._may_come_again(place, message):
                    deliver = partial(self._deliver, place, place.queue, [message])
                    yield Option(f"SQS delivers {message.id} again", deliver, cost, REDELIVERED)

    def _may_come_again(self, place: Place, message: Message) -> bool:
        now = self.world.tasks.now
        is_held = message.visible_at > now and place.function.busy > 0
        is_kept = now < message.sent_at + _RETENTION_SECONDS
        is_received = 0 < message.receives < place.line.max_receive_count
        return (message.deleted or is_held) and is_kept and is_received

    def _time(self, ready: Sequence[Task]) -> Iterator[Option]:
        """Time passes where nothing is ready. Where a task is, to let it pass is a preemption."""
        queues = [queue for place in self.places for queue in place.sources]
        if self.redrives:
            queues += [place.dead_letters for place in self.places]
        hidden = [message.visible_at for queue in queues for message in queue.waiting]
        later = [time for time in hidden if time > self.world.tasks.now]
        due = min([self.world.tasks.next_time, *later])
        if math.isfinite(due):
            yield Option("time passes", partial(self._wait, due), int(bool(ready)))
        if self.outages and not math.isfinite(self.world.tasks.next_time):
            yield Option("deliveries are suspended for a day", self._suspend, 1)

    def _may_relay(self, ready: Sequence[Task]) -> bool:
        """Tell whether the relay may begin.

        Where its events go to no running consumer, its steps and those of the consumers are
        independent: their order makes no difference, and the relay begins last.
        """
        rest = self._invocations.unread(0)
        if self._invocations.relaying or not any(_has_outbox(record) for record in rest):
            return False
        return self._scope.relays_early or not (ready or any(self._deliveries(0)))

    def _words(self, task: Task) -> str:
        call = self.world.calls[task]
        return f"{task.process.name}: {call.service}.{call.operation}"

    def _run(self, task: Task) -> Process:
        for place in self.places:
            place.function.idle.clear()  # every function starts cold
        self._service.relay.idle.clear()
        self.world.tasks.run(task)
        return task.process

    def _fail(self, task: Task, fault: Action) -> Process:
        self.world.let_meet(task, fault)
        return self._run(task)

    def _begun(self, process: Process) -> Process:
        """Let a new process run to its first call: it touches nothing before."""
        [task] = [task for task in self.world.tasks.ready if task.process is process]
        return self._run(task)

    def _deliver(
        self, place: Place, queue: Queue, messages: Sequence[Message], fatal: str = ""
    ) -> Process | None:
        for message in messages:
            message.deleted = False
        batch = queue.receive_these(messages, self.world.tasks.now)
        if not batch:  # SQS has moved it to the dead letters
            return None
        name = "+".join(message.handles[-1] for message in batch)
        name += f"!{fatal}" if fatal else ""  # the name stands for all that decides its way
        process = self._invocations.consume(place, queue, batch, name)
        process.fatal = fatal
        return self._begun(process)

    def _relay(self) -> Process:
        relayed = self._invocations.relayed[0]
        self._relays[relayed] += 1
        count = len(self._invocations.unread(0))
        name = f"relay-{relayed}.{self._relays[relayed]}"
        return self._begun(self._invocations.relay(0, count, name))

    def _redrive(self) -> Process:
        self.redrives -= 1
        work = partial(redrive, self._service)
        return self._begun(self._invocations.operate(work, f"operator-{self.redrives}"))

    def _is_certain_outside(self) -> bool:
        """Tell whether an effect is pending, and no call is under way: it could still arrive."""
        records = self.world.tables.items[DEDUP].values()
        is_pending = any(item[Record.STATE] == {"S": State.PENDING} for item in records)
        return is_pending and not any(at >= self.world.tasks.now for at, _ in self.world.late)

    def _settle(self) -> Process:
        self.settles -= 1
        work = partial(settle, self._service)
        return self._begun(self._invocations.operate(work, f"settler-{self.settles}"))

    def _suspend(self) -> None:
        self.outages -= 1
        self.world.tasks.now += OUTAGE_SECONDS

    def _wait(self, until: float) -> None:
        self.world.tasks.now = until


def _delivery_words(queue: Queue, batch: Iterable[Message]) -> str:
    return f"SQS delivers {' and '.join(message.id for message in batch)} from {queue.name}"


def _distinct(messages: Iterable[Message]) -> list[Message]:
    """Leave out a message that differs from an earlier one in its id alone: none was received."""
    chosen: dict[str, Message] = {}
    for message in messages:
        chosen.setdefault(message.id if message.receives else message.body, message)
    return list(chosen.values())


def _has_outbox(record: Mapping[str, Any]) -> bool:
    """Tell whether a stream record holds events, be it in an image of the past."""
    images = (record["dynamodb"].get(which, {}) for which in ("OldImage", "NewImage"))
    return any(Record.OUTBOX in image for image in images)
