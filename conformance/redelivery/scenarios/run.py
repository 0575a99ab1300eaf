"""One run: messages sent, delivered until the queue is at rest, acknowledged as Lambda would."""

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from redelivery.boundary.call import Call, Killed, Record
from redelivery.boundary.invocation import Invocation, Plan
from redelivery.samples import Message
from redelivery.subject import SubjectError
from redelivery.world.process import Process
from redelivery.world.queue import SourceQueue, failed_ids
from redelivery.world.state import State, state_of
from redelivery.world.world import World

MOST_DELIVERIES = 30
"""Deliveries after which a message that still comes back is stuck."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """State and course that one run left.

    `dead_letters` and `left` have the labels of the messages in the dead-letter queue and in the
    queue, `calls` those of the first invocation, `errors` what the handler raised.
    """

    before: State
    after: State
    dead_letters: tuple[str, ...]
    left: tuple[str, ...]
    record: Record
    plan: Plan
    course: tuple[str, ...]
    calls: tuple[Call, ...]
    errors: tuple[Exception, ...]


@dataclass(slots=True)
class Run:
    """One run in a world that is as new.

    With `drop_answer`, the next answer of the function does not reach SQS. In a run that
    `is_clean`, no fault takes place.
    """

    world: World
    plan: Plan
    drop_answer: bool = False
    is_clean: bool = False
    record: Record = field(default_factory=Record)
    course: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    _labels: dict[str, str] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)
    _process: Process | None = None
    _processes: int = 0
    _ended: bool = False
    _first_calls: list[Call] | None = None
    _at_rest: bool = True
    _before: State = field(default_factory=dict)
    queue: SourceQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = SourceQueue(self.world.subject, self.world.wait)
        self._before = state_of(self.world.resources, self.record)

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
        if self._first_calls is None:
            self._first_calls = invocation.calls
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

    def outcome(self) -> Outcome:
        """Return what the run left."""
        return Outcome(
            before=self._before,
            after=state_of(self.world.resources, self.record),
            dead_letters=tuple(map(self._label, self.queue.dead_letters())),
            left=() if self._at_rest else tuple(map(self._label, self.queue.left())),
            record=self.record,
            plan=self.plan,
            course=tuple(self.course),
            calls=tuple(self._first_calls or ()),
            errors=tuple(self.errors),
        )

    def named(self, records: list[dict[str, Any]]) -> str:
        """Return the labels of records."""
        return ", ".join(self._label(record["body"]) for record in records)

    def _label(self, body: str) -> str:
        return self._labels.get(body, "a message of the handler")
