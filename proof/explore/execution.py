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
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from proof.operator import redrive, settle
from proof.run import Stepper
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
        take: does it, and returns the process that ran, if any.
        preemptions: how many it is: none or one.
        fault: the kind of fault that it is; empty where it is none.
    """

    take: Callable[[], Process | None]
    preemptions: int = 0
    fault: str = ""


Command = Callable[[Service], None]
Choose = Callable[["Execution", Sequence[Option]], object]
"""Is told the options of a new state, of which the first is taken; may raise Pruned."""


class Pruned(Exception):
    """The rest of an execution is known from another one."""


class Execution(Stepper):
    """One execution. The same scope and the same choices make the same execution.

    Args:
        scope: the scope.
        prefix: the position of each option to take at first.
        choose: is told the options of each state after that.

    Attributes:
        choices: the position of each option that was taken.
        preemptions, faults: how many there were so far.
    """

    world: ScheduledWorld

    def __init__(self, scope: Scope, prefix: Sequence[int], choose: Choose) -> None:
        plan = Plan(script(scope.clocks))
        scenario = SCENARIOS[scope.scenario](scope.traffic, plan, 0, ScheduledWorld)
        super().__init__(scenario, scope.running)
        scenario.at_once, scenario.late_by = True, scope.late_by
        self.scope = scope
        self.choices: list[int] = []
        self.preemptions = self.faults = 0
        self._prefix, self._choose = prefix, choose
        again: list[Callable[[], object]] = [lambda: [*scenario.repeat()]]
        self._stages = [*again * scope.repeats, *[self.ledger.expire] * scope.expires]
        self._is_over = False
        self._running: Process | None = None  # it made the last step
        self._commands: dict[Command, int] = {redrive: scope.redrives, settle: scope.settles}
        self._outages = int(scope.outage)
        self._relays: Counter[int] = Counter()

    def run(self) -> Violation | None:
        """Run to rest, and return the violation that ended it, if any.

        Raises:
            Pruned: `choose` ends the execution.
        """
        with ExitStack() as stack:
            stack.enter_context(self.open())
            stack.enter_context(patch.object(executor, "_MAX_CALLS", self.scope.effect_calls))
            stack.callback(self.world.tasks.kill_all)
            self._begin()
            try:
                self.to_rest(MOST_STEPS)
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
            (*self._commands.values(), self._outages),
            running.name if running is not None and is_ready else "",
            sorted(map(self._standing_of, world.tasks.alive)),
            {name: sorted(rows.items()) for name, rows in tables.items.items()},
            (tables.tokens, self.service.unread(0), sorted(self.service.relaying)),
            [
                (
                    each.name,
                    [_content(message) for _, message in sorted(each.messages.items())],
                    sorted(m.id for m in each.ever),
                )
                for place in self.places
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
        self.scenario.begin()
        for place in self.places if self.scope.dead_lettered else ():
            for message in place.queue.ever:
                place.dead_letters.add(message)
                self.ledger.moved.add(message.body)
            place.queue.messages.clear()
            place.queue.ever.clear()
        if "payments" in self.scope.running:
            provider._api_key()  # noqa: SLF001 - read once, so that it is no call of the scope

    def step(self) -> bool:
        """Let each process go on to its next call, and take the option that is chosen."""
        # What woke up goes on to its next call: in between a process touches nothing.
        while idle := [task for task in self.world.tasks.ready if task not in self.world.calls]:
            self._run(idle[0])
        step, options = len(self.choices), self._options()
        choice = self._prefix[step] if step < len(self._prefix) else 0
        if step >= len(self._prefix):
            every = [*options]
            self._choose(self, every)
            options = iter(every)
        option = next(islice(options, choice, None), None)
        if option is None:
            raise LookupError(f"there is no choice {choice} in step {step}: is it the same code?")
        self.choices.append(choice)
        self.preemptions += option.preemptions
        self.faults += bool(option.fault)
        random.seed(0)  # jitter is the same in every step
        self._running = option.take()
        return not self._is_over

    def _options(self) -> Iterator[Option]:
        """Yield what can happen next; the first costs nothing."""
        steps = self._steps()
        first = next(steps, None)
        if first is None or first.fault or first.preemptions:
            self.ledger.disturbed = bool(self.faults) or self._outages < int(self.scope.outage)
            self.ledger.check_rest()
            yield Option(self._next_stage)
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
        cost = int(bool(current))
        # To go on costs nothing; to switch away from a process that could go on is a preemption.
        tasks = [(task, 0) for task in current]
        tasks += [(task, cost) for task in ready if task.process is not self._running]
        for task, switch in tasks:
            yield Option(partial(self._run, task), switch)
        batches = [*self._batches()]
        for place, queue, batch in batches:
            yield Option(partial(self._deliver, place, queue, batch), cost)
        if self._may_relay(is_busy=bool(ready or batches)):
            yield Option(self._relay, cost)
        if self._commands[redrive] and any(place.dead_letters.waiting for place in self.places):
            yield Option(partial(self._operate, redrive), cost)
        # A call that is under way could still arrive.
        late = any(at >= self.world.tasks.now for at, _ in self.world.late)
        if self._commands[settle] and not late and self.ledger.pending():
            yield Option(partial(self._operate, settle), cost)
        yield from self._time(is_preemption=bool(ready))
        for task, switch in tasks:
            for fault in self.world.faults(task):
                yield Option(partial(self._run, task, fault), switch, str(fault.what))
        yield from self._redeliveries(cost)
        # A function may be killed while it reads any message of its batch.
        for place, queue, batch in batches:
            for message in batch:
                deliver = partial(self._deliver, place, queue, batch, message.id)
                yield Option(deliver, cost, DEATH)

    def _batches(self) -> Iterator[tuple[Place, Queue, list[Message]]]:
        """Yield the batches that may be delivered."""
        for place, queue in self.sources():
            visible = queue.deliverable(self.world.tasks.now)
            # Without those that differ from an earlier one in the id alone: never received.
            chosen: dict[str, Message] = {}
            for each in queue.first_of_groups(visible):
                chosen.setdefault(each.id if each.receives else each.body, each)
            for message in chosen.values():
                yield place, queue, [message]
            if len(visible) > 1 and place.batch(queue) > 1:
                yield place, queue, visible

    def _redeliveries(self, cost: int) -> Iterator[Option]:
        """A standard queue may deliver again what is deleted, or what a function is working on."""
        now = self.world.tasks.now
        for place, queue in self.sources():
            if place.line.fifo or queue is not place.queue:
                continue
            for message in queue.messages.values():
                is_held = message.visible_at > now and place.function.busy > 0
                is_kept = now < message.sent_at + _RETENTION_SECONDS
                is_received = 0 < message.receives < place.line.max_receive_count
                if (message.deleted or is_held) and is_kept and is_received:
                    deliver = partial(self._deliver, place, queue, [message])
                    yield Option(deliver, cost, REDELIVERED)

    def _time(self, *, is_preemption: bool) -> Iterator[Option]:
        """Time passes where nothing is ready. Where a task is, to let it pass is a preemption."""
        due = self.next_time(dead_letters=self._commands[redrive] > 0)
        if math.isfinite(due):
            yield Option(partial(self._pass, due), int(is_preemption))
        if self._outages and not math.isfinite(self.world.tasks.next_time):
            yield Option(self._suspend, 1)

    def _may_relay(self, *, is_busy: bool) -> bool:
        """Tell whether the relay may begin.

        Where its events go to no running consumer, its steps and those of the consumers are
        independent: their order makes no difference, and the relay begins last.
        """
        rest = self.service.unread(0)
        if self.service.relaying or not any(_has_outbox(record) for record in rest):
            return False
        return len(self.places) > 1 or not is_busy

    def _run(self, task: Task, fault: Action | None = None) -> Process:
        if fault is not None:
            self.world.chosen[task] = fault
        for place in self.places:
            place.function.idle.clear()  # every function starts cold
        self.service.relay.idle.clear()
        self.world.tasks.run(task)
        return task.process

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
        process = self.service.consume(place, queue, batch, name)
        process.fatal = fatal
        return self._begun(process)

    def _relay(self) -> Process:
        relayed = self.service.relayed[0]
        self._relays[relayed] += 1
        name = f"relay-{relayed}.{self._relays[relayed]}"
        return self._begun(self.service.relay_next(0, len(self.service.unread(0)), name))

    def _operate(self, command: Command) -> Process:
        self._commands[command] -= 1
        name = f"{command.__name__}-{self._commands[command]}"
        return self._begun(self.service.operate(partial(command, self.service), name))

    def _suspend(self) -> None:
        self._outages -= 1
        self._pass(self.world.tasks.now + OUTAGE_SECONDS)

    def _pass(self, until: float) -> None:
        self.world.tasks.now = until


def _has_outbox(record: Mapping[str, Any]) -> bool:
    """Tell whether a stream record holds events, be it in an image of the past."""
    images = (record["dynamodb"].get(which, {}) for which in ("OldImage", "NewImage"))
    return any(Record.OUTBOX in image for image in images)
