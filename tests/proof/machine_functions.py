"""A consumer's function, and an external provider, on the stage of a machine."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from aws_lambda_powertools import Logger

from demo.payment_sandbox import Response
from once.consumer import Consumer, Runtime
from once.errors import KeySpent, NotDone
from once.settings import Settings, TableSettings
from once.testing.events import sqs_record
from proof.service import DEDUP, Context, url
from proof.world.calls import PROVIDER, Call, site
from proof.world.clients import NO_METRICS, clients
from proof.world.queues import Message, Queue, received
from proof.world.tasks import Process
from tests.proof.machines import Faults, Stage

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
        record = sqs_record(received(message), f"arn:aws:sqs:us-east-1:1:{self._queue.name}")
        group = message.attributes.get("group", {}).get("StringValue")
        more = {"MessageGroupId": group} if group else {}
        return record | {"attributes": record["attributes"] | more}


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
