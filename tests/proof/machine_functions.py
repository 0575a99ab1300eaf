"""A consumer's function behind its queue, on the stage of a machine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from once.consumer import Consumer
from once.runtime import Runtime
from once.settings import Settings, TableSettings
from once.testing.events import sqs_record
from proof.shop.clients import clients
from proof.shop.service import DEDUP, Context, url
from proof.world.queues import Message, Queue, received
from proof.world.tasks import Process
from tests.proof.machines import LOGGER, NO_METRICS, Stage, Trouble


class Function:
    """A consumer's function behind its queue. What was warm is used again, unless it was killed.

    Args:
        stage: where it runs.
        consumer: what it does.
        queue: its queue, with its dead letters.
        acknowledged: told of each message before it is deleted.
        seconds: after which it is killed.
        more: fields of `once.settings.Settings` that differ from their defaults.
    """

    def __init__(
        self,
        stage: Stage,
        consumer: Consumer,
        queue: Queue,
        acknowledged: Callable[[Message], object],
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
        """Let the next one be new: nothing is warm any more."""
        self._idle.clear()

    def deliver(
        self,
        messages: Sequence[Message],
        troubles: Sequence[Trouble | None] = (),
        *,
        seconds: float = 30,
        skew: float = 0,
    ) -> None:
        """Begin an invocation with these messages, wherever they were.

        It has so many seconds. If it is a new process, its clock is fast by `skew` seconds.
        """
        records = [self._handed_out(message) for message in messages]
        handles = {message.id: message.handles[-1] for message in messages}

        def work(process: Process) -> None:
            with self._one(process, skew) as handle:
                answer = handle({"Records": records}, Context(process, self._stage.tasks.clock))
            failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            assert failed <= handles.keys(), "the answer names messages of another batch"
            for message in messages:
                if message.id not in failed:
                    self._acknowledged(message)
                    self._queue.delete(handles[message.id])

        self._stage.start(self._consumer.name, seconds, work, troubles)

    @contextmanager
    def _one(self, process: Process, skew: float) -> Iterator[Any]:
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

    def _handed_out(self, message: Message) -> dict[str, Any]:
        now = self._stage.tasks.now
        message.handles.append(f"{message.id}.{message.receives + 1}")
        message.first_received_at = message.first_received_at or now
        message.visible_at = now + self._queue.visibility
        record = sqs_record(received(message), f"arn:aws:sqs:us-east-1:1:{self._queue.name}")
        group = message.attributes.get("group", {}).get("StringValue")
        more = {"MessageGroupId": group} if group else {}
        return record | {"attributes": record["attributes"] | more}
