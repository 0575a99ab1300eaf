"""The play of a scenario: messages sent and delivered with its fault until the queue is at rest."""

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redelivery.boundary.aws import remembered
from redelivery.boundary.invocation import Call, Invocation, Killed, Plan, Record
from redelivery.faults import BESIDE, Fault
from redelivery.samples import NEIGHBOUR, POISON, Message, Samples
from redelivery.scenarios.scenario import SENT_TWICE, Scenario
from redelivery.subject import SubjectError
from redelivery.world.execution_environment import Process
from redelivery.world.queue import SourceQueue, failed_ids
from redelivery.world.resources import State, state_of
from redelivery.world.world import World

MOST_DELIVERIES = 30
"""Deliveries after which a message that still comes back is stuck."""

SOON_SECONDS = 30
REDRIVE_SECONDS = 600

_SHOWN_BY_THE_PLAY = {
    *(Fault.IN_PARALLEL, Fault.TWO_IN_PARALLEL),
    *(Fault.BATCH_ANSWER_LOST, Fault.REGROUPED, Fault.STALE_READ),
}
"""Faults that may not take place, as the play shows."""

Work = Callable[[Callable[[int], None]], None]
"""One invocation; it is given what it must call before its call number n."""


@dataclass(slots=True)
class Run:
    """One run in a world that is as new, and what it has left when it is finished.

    With `drop_answer`, the next answer of the function does not reach SQS. In a run that
    `is_clean`, no fault takes place.

    Attributes:
        before, after: the state at its begin and its end.
        course: what happened, one sentence a step.
        dead_letters, left: labels of the messages in the dead-letter queue and in the queue.
        calls: those of the first invocation.
        errors: what the handler raised.
    """

    world: World
    plan: Plan
    drop_answer: bool = False
    is_clean: bool = False
    record: Record = field(default_factory=Record)
    course: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    dead_letters: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    _labels: dict[str, str] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)
    _process: Process | None = None
    _processes: int = 0
    _ended: bool = False
    _at_rest: bool = True
    _is_first: bool = True
    before: State = field(init=False)
    after: State = field(init=False)
    queue: SourceQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = SourceQueue(self.world.subject, self.world.wait)
        self.before = state_of(self.world.resources, self.record)

    def tell(self, sentence: str) -> None:
        """Add a step to the course."""
        self.course.append(sentence)

    def send(self, *messages: Message) -> None:
        """Send messages to the source queue."""
        for message in messages:
            self._labels[message.body] = message.label
            self._ids[message.body] = self.queue.send(message)

    def send_copy(self, message: Message) -> None:
        """Let SQS have another copy of a message under its first id."""
        self.queue.send(message, as_id=self._ids[message.body])

    def settle(self) -> None:
        """Deliver until nothing comes back."""
        for _ in range(MOST_DELIVERIES):
            at_rest = self.queue.is_settled and not self.record.requeued
            records = [] if at_rest else self.queue.receive() or self.queue.receive_later()
            self._at_rest = not records
            if not records:
                return
            self._deliver(records)
            if self.is_clean and self._ended:
                return  # the process ended: so it would each time

    def deliver_once(self) -> None:
        """Deliver what is visible, in one batch."""
        self._deliver(self.queue.receive())

    def _deliver(self, records: list[dict[str, Any]]) -> None:
        # A method of its own: when it returns, nothing refers to the exception that ended a
        # process any more, so that connections in its frames are closed before the next delivery.
        if self._process is None:
            self._process = self.new_process()
        self.tell(f"SQS delivers {self.named(records)} to {self._process.name}")
        answer = self.invoke(self._process, records, self.invocation())
        self.acknowledge(records, answer)

    def invoke(
        self, process: Process, records: list[dict[str, Any]], invocation: Invocation
    ) -> Any:
        """Invoke the function, and return its answer, or the exception that ended it."""
        try:
            answer = process.invoke({"Records": records}, invocation)
        except Killed as end:
            answer = end
            self.end_process(process)
        except SystemExit as end:
            self.tell("the handler ends its process")
            answer = end
            self.end_process(process)
        except SubjectError:
            raise
        except Exception as error:
            self.errors.append(error)
            self.tell(f"the handler raises {type(error).__name__}: {str(error)[:200]}")
            answer = error
        if invocation.is_late and not invocation.dead:
            self.tell("the function ends by itself, before its time is over")
        if self._is_first:
            self.calls, self._is_first = invocation.calls, False
        for late in invocation.overdue:
            self.tell("the call without an answer takes effect now")
            with contextlib.suppress(Exception):
                late()
        return answer

    def acknowledge(self, records: list[dict[str, Any]], answer: Any) -> None:
        """Delete what was processed; the rest is delivered again."""
        if isinstance(answer, BaseException):
            failed: Collection[str] = [record["messageId"] for record in records]
        elif self.drop_answer:
            self.drop_answer, self.plan.delivered = False, True
            self.tell("the function's answer is lost: SQS keeps the whole batch")
            return
        else:
            failed = failed_ids(answer, records, partial=self.world.subject.batch_failures)
            if failed:
                self.tell("the function reports messages as failed")
        done = [record for record in records if record["messageId"] not in failed]
        again = [record for record in records if record["messageId"] in failed]
        self.queue.delete(done)
        if done:
            self.tell(f"SQS deletes {self.named(done)}")
        if again:
            self.tell(f"{self.named(again)} will be delivered again")

    def invocation(self, before_call: Callable[[int], None] = lambda _: None) -> Invocation:
        """Return a new invocation of the function."""
        return Invocation(
            plan=self.plan,
            record=self.record,
            tell=self.tell,
            advance=self.world.clock.shift,
            root=self.world.root,
            seconds_left=self.world.subject.timeout_seconds,
            before_call=before_call,
        )

    def new_process(self) -> Process:
        """Return a new process beside the others."""
        self._processes += 1
        return Process(self.world.code, f"process {self._processes}")

    def end_process(self, process: Process | None = None) -> None:
        """Let a process be gone: the next delivery starts a new one."""
        self._ended = True
        if process is None or process is self._process:
            self._process = None

    def finish(self) -> "Run":
        """Deliver until nothing comes back, and see what is left."""
        self.settle()
        self._process = None
        self.after = state_of(self.world.resources, self.record)
        self.dead_letters = [self._label(body) for body in self.queue.dead_letters()]
        self.left = [] if self._at_rest else [self._label(body) for body in self.queue.left()]
        return self

    def named(self, records: list[dict[str, Any]]) -> str:
        """Return the labels of records."""
        return ", ".join(self._label(record["body"]) for record in records)

    def _label(self, body: str) -> str:
        return self._labels.get(body, "a message of the handler")


def play(world: World, samples: Samples, scenario: Scenario) -> Run:
    """Play a scenario in a world that is as new."""
    if scenario.fault.at_a_call:
        run = Run(world, Plan(scenario.fault, scenario.at[0]))
        run.send(*filter(None, [samples.first, samples.second][: scenario.messages]))
    else:
        run = Run(world, Plan(delivered=scenario.fault not in _SHOWN_BY_THE_PLAY))
        _PLAYS[scenario.fault](run, samples, scenario)
    return run.finish()


def play_clean(world: World, messages: Sequence[Message]) -> Run:
    """Process messages one after the other without a fault."""
    run = Run(world, Plan(), is_clean=True)
    for message in messages:
        run.send(message)
        run.settle()
    return run.finish()


def _batch(run: Run, samples: Samples, scenario: Scenario) -> None:
    run.drop_answer = scenario.fault is Fault.BATCH_ANSWER_LOST
    run.send(*filter(None, [samples.first, samples.second]))


def _twice_in_batch(run: Run, samples: Samples, _: Scenario) -> None:
    run.send(samples.first)
    run.send_copy(samples.first)


def _regrouped(run: Run, samples: Samples, _: Scenario) -> None:
    run.drop_answer = True
    run.send(samples.first)
    run.deliver_once()
    run.world.wait(run.world.subject.visibility_seconds + 1)
    run.send(*filter(None, [samples.second]))


def _stale_read(run: Run, samples: Samples, _: Scenario) -> None:
    run.send(samples.first)
    run.settle()
    run.record.is_stale = True
    run.send_copy(samples.first)
    run.tell(f"SQS delivers {samples.first.label} again at once")


def _in_parallel(run: Run, samples: Samples, scenario: Scenario) -> None:
    run.send(samples.first)
    other = samples.sibling or samples.second
    if scenario.fault is Fault.TWO_IN_PARALLEL and other:
        run.send(other)
    elif scenario.variant == SENT_TWICE:
        run.send(samples.first)
    elif not run.world.subject.fifo:
        run.send_copy(samples.first)
    records = run.queue.receive()
    if len(records) == 1:  # the mapping's batches have one message
        records += run.queue.receive()
    # A FIFO queue delivers the one message again when its visibility timeout ends too early.
    records = (records * 2)[:2]
    processes = [run.new_process(), run.new_process()]
    answers: list[Any] = [None, None]

    def work(index: int) -> Work:
        def play_one(before_call: Callable[[int], None]) -> None:
            process, own = processes[index], [records[index]]
            invocation = run.invocation(before_call)
            invocation.tell = lambda sentence: run.tell(f"{process.name}: {sentence}")
            run.tell(f"SQS delivers {run.named(own)} to {process.name}")
            answers[index] = run.invoke(process, own, invocation)

        return play_one

    turns = _Turns(scenario.at)
    turns.run([work(0), work(1)])
    run.plan.delivered = turns.changed > 0
    for record, answer in zip(records, answers, strict=True):
        run.acknowledge([record], answer)


def _delivered_again(run: Run, samples: Samples, scenario: Scenario) -> None:
    run.send(samples.first)
    run.settle()
    if scenario.variant == "cold":
        run.end_process()
        run.tell("Lambda starts a new process")
    run.send_copy(samples.first)
    run.tell(f"SQS delivers {samples.first.label} again, with the same MessageId")


def _sent_later(run: Run, samples: Samples, scenario: Scenario) -> None:
    horizon, label = run.world.subject.horizon_seconds, samples.first.label
    seconds, sentence = {
        Fault.SENT_AGAIN: (SOON_SECONDS, f"the producer sends {label} again after 30 seconds"),
        Fault.REDRIVEN: (REDRIVE_SECONDS, f"{label} is sent to its queue again after ten minutes"),
        Fault.AFTER_EXPIRY: (
            horizon,
            f"{horizon / 86400:.4g} days pass; what has expired is deleted; {label} arrives again",
        ),
    }[scenario.fault]
    run.send(samples.first)
    run.settle()
    guessed = run.world.wait(seconds, undeclared=scenario.fault is Fault.AFTER_EXPIRY)
    for attribute in guessed:
        run.tell(f"{attribute} is taken for a time to live (ttl=, no-ttl): expired items are gone")
    if seconds > SOON_SECONDS:
        run.end_process()
    if scenario.fault is Fault.AFTER_EXPIRY:
        for told in dict.fromkeys(map(remembered, run.record.answers)):
            run.tell(told)
    run.tell(sentence)
    run.send(samples.first)


def beside(scenario: Scenario, first: Message, *, fifo: bool) -> Message:
    """Return the other message of a scenario with one that should fail."""
    if scenario.fault is Fault.NEIGHBOUR_FAILS:
        label, body = "a neighbour without its fields", NEIGHBOUR
    else:
        label = "a message that is no JSON object"
        body = POISON.get(scenario.variant, POISON[""])
    return Message(label, body, group=label if fifo else first.group)


def _beside(run: Run, samples: Samples, scenario: Scenario) -> None:
    other = beside(scenario, samples.first, fifo=run.world.subject.fifo)
    both = [other, samples.first]
    run.send(*(reversed(both) if scenario.variant == "last" else both))


def _other_content(run: Run, samples: Samples, _: Scenario) -> None:
    run.send(samples.first)
    run.settle()
    run.tell("a message with the same key and other content arrives")
    run.send(*filter(None, [samples.other]))


_PLAYS: Mapping[Fault, Callable[[Run, Samples, Scenario], None]] = {
    Fault.BATCH: _batch,
    Fault.BATCH_ANSWER_LOST: _batch,
    Fault.TWICE_IN_BATCH: _twice_in_batch,
    Fault.IN_PARALLEL: _in_parallel,
    Fault.TWO_IN_PARALLEL: _in_parallel,
    Fault.DELIVERED_AGAIN: _delivered_again,
    Fault.STALE_READ: _stale_read,
    Fault.REGROUPED: _regrouped,
    Fault.SENT_AGAIN: _sent_later,
    Fault.REDRIVEN: _sent_later,
    Fault.AFTER_EXPIRY: _sent_later,
    **dict.fromkeys(BESIDE, _beside),
    Fault.OTHER_CONTENT: _other_content,
}


class _Turns:
    """Lets two invocations run alternately: deterministic, since one thread runs at a time."""

    def __init__(self, changes: Sequence[int]) -> None:
        """Take the numbers of the calls before which the first, the second, … changes over.

        `(3,)`: the first invocation stops before its third call until the second has ended.
        `(3, 2)`: the second stops before its second call until the first has ended.
        """
        self._changes = changes
        self._go = (threading.Event(), threading.Event())
        self._ended = [False, False]
        self.changed = 0

    def run(self, works: Sequence[Work]) -> None:
        """Run two invocations to their ends. Raises what one of them raises."""
        errors: list[BaseException] = []
        threads = [
            threading.Thread(target=self._one, args=(index, work, errors), daemon=True)
            for index, work in enumerate(works)
        ]
        self._go[0].set()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _one(self, index: int, work: Work, errors: list[BaseException]) -> None:
        self._go[index].wait()
        try:
            work(lambda number: self._before_call(index, number))
        except BaseException as error:
            errors.append(error)
        self._ended[index] = True
        self._go[1 - index].set()

    def _before_call(self, index: int, number: int) -> None:
        changes = self._changes[index] if index < len(self._changes) else 0
        if number != changes or self._ended[1 - index]:
            return
        self.changed += 1
        self._go[index].clear()
        self._go[1 - index].set()
        self._go[index].wait()
