"""One execution of a scope: from its initial state to rest, by a schedule of choices.

In each state it lists everything that can happen next, and what it costs of the bounds.

A digest of its state holds all that its future and its oracles depend on. A suspended task cannot
be compared with another one. But its code is deterministic: where it stands follows from the
messages that it was invoked with, which are in its process's name, and from every answer it was
given, with the time of each. So a digest of the answers stands for it. Of a process that has ended,
nothing but what it wrote is left. The identifiers that a process draws follow from its name, so
that two schedules that do the same in another order reach the same state.
"""

import marshal
import math
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import blake2b
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple
from unittest.mock import patch

from functions.payments import provider
from once.effects import executor
from once.names import Record
from proof.explore.scopes import Scope
from proof.ledger import Ledger
from proof.operator import on_time, redrive, settle
from proof.scenarios import SCENARIOS
from proof.service import Place, Service, Violation
from proof.world.calls import PROVIDER, Call
from proof.world.faults import Action, Fault, Plan, kinds, script
from proof.world.queues import Message, Queue
from proof.world.tasks import Process, Task
from proof.world.world import World

MOST_STEPS = 400
OUTAGE_SECONDS = 25 * 60 * 60
REDELIVERED = "delivered again"
DEATH = "death while reading"
_RETENTION_SECONDS = 14 * 24 * 60 * 60
"""The longest that SQS keeps a message."""
_SIDE_BY_SIDE = 2
"""The most invocations of one function at the same time."""
_LATE_SECONDS = (2.0, 60.0)
"""When a late call takes effect: while its caller still asks for the outcome, and afterwards."""
_LATE_CHARGE_SECONDS = (2.0, 9.0)
"""The same for the provider: within the caller's timeout, and between two later deliveries."""
_content = attrgetter(
    *("id", "body", "attributes", "sent_at", "visible_at", "first_received_at"),
    *("handles", "deleted", "group", "number"),
)
_READS = {"GetItem", "BatchGetItem", "ReceiveMessage", "Scan"}


class ScheduledWorld(World):
    """A world in which a scheduler says which call goes on, and which fault it meets.

    Attributes:
        calls: the call that each suspended task is about to make.
        late: the calls that are still under way, with the time at which they take effect.
        chosen: the fault that a task's next call is to meet.
        histories: a digest of every answer that each process was given, and of when.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls: dict[Task, Call] = {}
        self.late: list[tuple[float, str]] = []
        self.chosen: dict[Task, Action] = {}
        self._repeated: dict[str, Action | None] = {}
        self.histories: defaultdict[str, Any] = defaultdict(lambda: blake2b(digest_size=16))
        self._called: Counter[str] = Counter()
        self._drawn: Counter[str] = Counter()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Have all calls, waiting, threads and identifiers of this Python process in this world."""
        with ExitStack() as stack:
            stack.enter_context(super().open())
            stack.enter_context(patch.object(os, "urandom", self._identifier))
            stack.enter_context(patch.object(random, "_urandom", self._identifier))
            yield

    def faults(self, task: Task) -> list[Action]:
        """Return the faults that a task's next call may meet.

        A crash before a call leaves what a crash after the process's previous write leaves, and a
        read changes nothing. So a process crashes before its first call, or after a write.
        """
        call = self.calls[task]
        reads = call.operation in _READS or call.operation.startswith("GET ")
        left_out = {Fault.CRASH_AFTER, Fault.LATE} if reads else set()
        if self._called[task.process.name]:
            left_out = left_out | {Fault.CRASH_BEFORE}
        place = f"{call.site} {call.service}.{call.operation}"
        # A conflict is about the dedup record, or about the first item of the handler.
        is_provider = call.service == PROVIDER
        entries = 1 if is_provider else len(call.request.get("TransactItems", "1"))
        late = _LATE_CHARGE_SECONDS if is_provider else _LATE_SECONDS
        return [
            Action(place, 1, kind, position=position, seconds=seconds)
            for kind in sorted(kinds(call.service, call.operation) - left_out)
            for position in range(min(2, entries) if kind is Fault.CONFLICT else 1)
            for seconds in (late if kind is Fault.LATE else (0.0,))
        ]

    def respond(self, call: Call) -> Any:
        """Do a call when the scheduler says so; see `World.respond`."""
        if self.tasks.current is None:
            return self.do(call)
        try:
            answer = super().respond(call)
        except BaseException as error:
            self._remember((repr(error), getattr(error, "more", None)))
            raise
        self._remember(answer)
        return answer

    def _planned(self, call: Call) -> Action | None:
        # The SDK's own retries of a call meet what its first attempt met, and are no scheduling
        # points: they carry the same token.
        if call.name in self._repeated:
            return self._repeated[call.name]
        task = self.tasks.current
        assert task is not None  # noqa: S101
        self.calls[task] = call
        try:
            self.tasks.pause()
        finally:
            del self.calls[task]
        self._called[task.process.name] += 1
        fault = self.chosen.pop(task, None)
        if fault is not None and fault.what == Fault.LATE:
            self.late.append((self.tasks.now + fault.seconds, repr(call.request)))
        if call.name:
            self._repeated[call.name] = fault
        return fault

    def _remember(self, answer: Any) -> None:
        task = self.tasks.current
        assert task is not None  # noqa: S101
        self.histories[task.process.name].update(f"{self.tasks.now} {answer!r}\n".encode())

    def _identifier(self, size: int) -> bytes:
        task = self.tasks.current
        name = task.process.name if task else "-"
        self._drawn[name] += 1
        return blake2b(f"{name} {self._drawn[name]}".encode(), digest_size=size).digest()


class Option(NamedTuple):
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


Choose = Callable[["Execution", Sequence[Option]], object]
"""Is told the options of a new state, of which the first is taken; may raise Pruned."""


class Pruned(Exception):
    """The rest of an execution is known from another one."""


class Execution:
    """One execution. The same scope and the same choices make the same execution.

    Args:
        scope: the scope.
        prefix: the position of each option to take at first.
        choose: is told the options of each state after that.

    Attributes:
        choices: the position of each option that was taken.
        words: the same, in words.
        preemptions, faults: how many there were so far.
    """

    def __init__(self, scope: Scope, prefix: Sequence[int], choose: Choose) -> None:
        self.scope = scope
        self._prefix = prefix
        self.choices: list[int] = []
        self.words: list[str] = []
        self.preemptions = self.faults = 0
        plan = Plan(script(scope.clocks))
        self._scenario = SCENARIOS[scope.scenario](scope.traffic, plan, 0, ScheduledWorld)
        self._scenario.at_once = True
        self._scenario.late_by = scope.late_by
        self._service = self._scenario.service
        assert isinstance(self._service.world, ScheduledWorld)  # noqa: S101
        self.world = self._service.world
        self.ledger = Ledger(self._scenario, scope.running)
        self._places = [self._service.places[name] for name in scope.running]
        self._choose = choose
        again: list[Callable[[], object]] = [lambda: [*self._scenario.repeat()]]
        self._stages = [*again * scope.repeats, *[self.ledger.expire] * scope.expires]
        self._is_over = False
        self._running: Process | None = None  # it made the last step
        self._redrives, self._settles = scope.redrives, scope.settles
        self._outages = int(scope.outage)
        self._relays: Counter[int] = Counter()

    def run(self) -> Violation | None:
        """Run to rest, and return the violation that ended it, if any.

        Raises:
            Pruned: `choose` ends the execution.
        """
        with ExitStack() as stack:
            stack.enter_context(self.world.open())
            stack.enter_context(on_time(self.world.tasks.clock))
            stack.enter_context(patch.object(executor, "_MAX_CALLS", self.scope.effect_calls))
            stack.callback(self.world.tasks.kill_all)
            self._begin()
            try:
                self._to_rest()
            except Violation as violation:
                return violation
        return None

    def digest(self) -> bytes:
        """Return the digest of the state that it is in."""
        world, ledger, running = self.world, self.ledger, self._running
        tables = world.tables
        is_ready = any(task.process is running for task in world.tasks.ready)
        state = (
            (world.tasks.now, len(self._stages)),
            (self._redrives, self._settles, self._outages),
            running.name if running is not None and is_ready else "",
            sorted(map(self._standing_of, world.tasks.alive)),
            {name: sorted(rows.items()) for name, rows in tables.items.items()},
            (tables.tokens, self._service.unread(0), sorted(self._service.relaying)),
            [
                (
                    each.name,
                    [_content(message) for _, message in sorted(each.messages.items())],
                    sorted(m.id for m in each.ever),
                )
                for place in self._places
                for each in (*place.sources, place.dead_letters)
            ],
            sorted(world.provider.api.charges(), key=repr),
            world.provider.keys,
            sorted(world.mail.sent.items()),
            sorted(world.workflows.started.items()),
            [call for call in world.late if call[0] >= world.tasks.now],
            sorted((key, sorted(ids)) for key, ids in ledger.commits.items()),
            (sorted(ledger.published), sorted(ledger.premature)),
        )
        # This version of the format has no references: equal states have equal bytes.
        return blake2b(marshal.dumps(state, 2), digest_size=16).digest()

    def _standing_of(self, task: Task) -> tuple[Any, ...]:
        world, process = self.world, task.process
        wakes_at = max(task.wakes_at, world.tasks.now)
        waiting, has_call = len(task.waits_for), task in world.calls
        history = world.histories[process.name].hexdigest()
        return (process.name, process.deadline, wakes_at, waiting, has_call, history)

    def _begin(self) -> None:
        self._scenario.begin()
        for place in self._places if self.scope.dead_lettered else ():
            for message in place.queue.ever:
                place.dead_letters.add(message)
                self.ledger.moved.add(message.body)
            place.queue.messages.clear()
            place.queue.ever.clear()
        if "payments" in self.scope.running:
            provider._api_key()  # noqa: SLF001 - read once, so that it is no call of the scope

    def _to_rest(self) -> None:
        for _ in range(MOST_STEPS):
            self.world.tasks.fire()
            # What woke up goes on to its next call: in between a process touches nothing.
            while idle := [task for task in self.world.tasks.ready if task not in self.world.calls]:
                self._run(idle[0])
            self._take(self._options())
            if self._is_over:
                return
            if self._service.error is not None:
                raise self._service.error
            self.ledger.check_state()
        raise Violation("never at rest", f"after {MOST_STEPS} steps")

    def _take(self, options: Iterator[Option]) -> None:
        step = len(self.choices)
        choice = self._prefix[step] if step < len(self._prefix) else 0
        if step >= len(self._prefix):
            every = [*options]
            self._choose(self, every)
            options = iter(every)
        option = next(islice(options, choice, None), None)
        if option is None:
            raise LookupError(f"there is no choice {choice} in step {step}: is it the same code?")
        self.choices.append(choice)
        self.words.append(option.words)
        self.preemptions += option.preemptions
        self.faults += bool(option.fault)
        random.seed(0)  # jitter is the same in every step
        self._running = option.take()

    def _options(self) -> Iterator[Option]:
        """Yield what can happen next; the first costs nothing."""
        steps = self._steps()
        first = next(steps, None)
        if first is None or first.fault or first.preemptions:
            self.ledger.disturbed = bool(self.faults) or self._outages < int(self.scope.outage)
            self.ledger.check_rest()
            yield Option("all is at rest", self._next_stage)
        if first is not None:
            yield first
        yield from steps

    def _next_stage(self) -> None:
        self._is_over = not self._stages
        if self._stages:
            self._stages.pop(0)()

    def _steps(self) -> Iterator[Option]:
        """Yield every step, first what costs least."""
        ready = self.world.tasks.ready
        current = [task for task in ready if task.process is self._running]
        other = [task for task in ready if task.process is not self._running]
        cost = int(bool(current))
        for task in (*current, *other):
            switch = 0 if task in current else cost
            yield Option(self._words(task), partial(self._run, task), switch)
        yield from self._deliveries(cost)
        if self._may_relay(ready):
            yield Option("Lambda invokes the relay", self._relay, cost)
        if self._redrives and any(place.dead_letters.waiting for place in self._places):
            yield Option("the operator redrives", self._redrive, cost)
        # A call that is under way could still arrive.
        late = any(at >= self.world.tasks.now for at, _ in self.world.late)
        if self._settles and not late and self.ledger.pending():
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
        for place in self._places:
            for queue in place.sources if place.function.busy < _SIDE_BY_SIDE else ():
                visible = queue.deliverable(now)
                first = queue.first_of_groups(visible)
                # Without those that differ from an earlier one in the id alone: never received.
                chosen: dict[str, Message] = {}
                for each in first:
                    chosen.setdefault(each.id if each.receives else each.body, each)
                batches = [[message] for message in chosen.values()]
                if len(visible) > 1 and place.batch(queue) > 1:
                    batches.append(visible)
                for batch in batches:
                    yield place, queue, batch

    def _redeliveries(self, cost: int) -> Iterator[Option]:
        """A standard queue may deliver again what is deleted, or what a function is working on."""
        for place in self._places:
            for message in () if place.line.fifo else place.queue.messages.values():
                busy, now = place.function.busy, self.world.tasks.now
                is_held = message.visible_at > now and busy > 0
                is_kept = now < message.sent_at + _RETENTION_SECONDS
                is_received = 0 < message.receives < place.line.max_receive_count
                may_come = (message.deleted or is_held) and is_kept and is_received
                if busy < _SIDE_BY_SIDE and may_come:
                    deliver = partial(self._deliver, place, place.queue, [message])
                    yield Option(f"SQS delivers {message.id} again", deliver, cost, REDELIVERED)

    def _time(self, ready: Sequence[Task]) -> Iterator[Option]:
        """Time passes where nothing is ready. Where a task is, to let it pass is a preemption."""
        queues = [queue for place in self._places for queue in place.sources]
        if self._redrives:
            queues += [place.dead_letters for place in self._places]
        hidden = [message.visible_at for queue in queues for message in queue.waiting]
        later = [time for time in hidden if time > self.world.tasks.now]
        due = min([self.world.tasks.next_time, *later])
        if math.isfinite(due):
            yield Option("time passes", partial(self._wait, due), int(bool(ready)))
        if self._outages and not math.isfinite(self.world.tasks.next_time):
            yield Option("deliveries are suspended for a day", self._suspend, 1)

    def _may_relay(self, ready: Sequence[Task]) -> bool:
        """Tell whether the relay may begin.

        Where its events go to no running consumer, its steps and those of the consumers are
        independent: their order makes no difference, and the relay begins last.
        """
        rest = self._service.unread(0)
        if self._service.relaying or not any(_has_outbox(record) for record in rest):
            return False
        return self.scope.relays_early or not (ready or any(self._deliveries(0)))

    def _words(self, task: Task) -> str:
        call = self.world.calls[task]
        return f"{task.process.name}: {call.service}.{call.operation}"

    def _run(self, task: Task) -> Process:
        for place in self._places:
            place.function.idle.clear()  # every function starts cold
        self._service.relay.idle.clear()
        self.world.tasks.run(task)
        return task.process

    def _fail(self, task: Task, fault: Action) -> Process:
        self.world.chosen[task] = fault
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
        process = self._service.consume(place, queue, batch, name)
        process.fatal = fatal
        return self._begun(process)

    def _relay(self) -> Process:
        relayed = self._service.relayed[0]
        self._relays[relayed] += 1
        name = f"relay-{relayed}.{self._relays[relayed]}"
        return self._begun(self._service.relay_next(0, len(self._service.unread(0)), name))

    def _redrive(self) -> Process:
        self._redrives -= 1
        return self._operate(redrive, f"operator-{self._redrives}")

    def _settle(self) -> Process:
        self._settles -= 1
        return self._operate(settle, f"settler-{self._settles}")

    def _operate(self, command: Callable[[Service], None], name: str) -> Process:
        return self._begun(self._service.operate(partial(command, self._service), name))

    def _suspend(self) -> None:
        self._outages -= 1
        self.world.tasks.now += OUTAGE_SECONDS

    def _wait(self, until: float) -> None:
        self.world.tasks.now = until


def _delivery_words(queue: Queue, batch: Iterable[Message]) -> str:
    return f"SQS delivers {' and '.join(message.id for message in batch)} from {queue.name}"


def _has_outbox(record: Mapping[str, Any]) -> bool:
    """Tell whether a stream record holds events, be it in an image of the past."""
    images = (record["dynamodb"].get(which, {}) for which in ("OldImage", "NewImage"))
    return any(Record.OUTBOX in image for image in images)
