"""Lambda and its event source mappings: invocations, each as a task of its own process."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zlib import crc32

from botocore.exceptions import BotoCoreError, ClientError

from once.names import Record
from once.testing.events import sqs_record
from proof.ledger import Ledger, Violation
from proof.service import Context, Function, Place, Service
from proof.world.faults import PlatformFault
from proof.world.queues import Message, Queue, received
from proof.world.tasks import Killed, Process

_TOO_MANY = 429


class Invocations:
    """Starts invocations.

    Args:
        service: the service.
        ledger: checks each acknowledgement.
        shards: number of shards of the stream.

    Attributes:
        error: the first violation or unexpected exception of a task.
        relayed: number of records of each shard that the relay has finished.
        relaying: the shards that have a reader. A shard has one at most.
    """

    def __init__(self, service: Service, ledger: Ledger, shards: int = 1) -> None:
        self.error: BaseException | None = None
        self.relayed: Counter[int] = Counter()
        self.relaying: set[int] = set()
        self._service = service
        self._world = service.world
        self._ledger = ledger
        self._shards = shards
        self._started = 0
        self._world.queues.deleted = self._check_deleted

    def consume(
        self, place: Place, queue: Queue, messages: Sequence[Message], name: str = ""
    ) -> Process:
        """Invoke a consumer.

        Args:
            place: the consumer.
            queue: the messages' queue.
            messages: the messages, which were just received.
            name: of the process; by default numbered.
        """
        handles = {message.id: message.handles[-1] for message in messages}
        arn = f"a:b:c:d:e:{queue.name}"
        records = [sqs_record(received(message), arn) for message in messages]

        def work(process: Process) -> None:
            with place.function.handler(process) as handle:
                answer = handle({"Records": records}, Context(process, self._world.tasks.clock))
            failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            if not failed <= handles.keys():
                raise Violation("answer", f"{failed} are not of this batch")
            for message in messages:
                if message.id not in failed:
                    self._ledger.check_acknowledgement(place, queue, message)
                    self._delete(place, queue, message, handles[message.id])

        process = self.start(name, place.function.name, place.function.seconds, work)
        for message in messages:
            message.receivers.append(process)
        return process

    def unread(self, shard: int) -> list[Any]:
        """Return the records of a shard that the relay has not finished."""
        stream, done = self._world.tables.stream, self.relayed[shard]
        if self._shards == 1:
            return stream[done:]
        return [record for record in stream if self._shard_of(record) == shard][done:]

    def _shard_of(self, record: Any) -> int:
        key: str = record["dynamodb"]["Keys"][Record.PK]["S"]
        return crc32(key.encode()) % self._shards

    def relay(self, shard: int, count: int, name: str = "") -> Process:
        """Invoke the relay with the next records of a shard of the stream."""
        function = self._service.relay
        records = self.unread(shard)[:count]
        self.relaying.add(shard)

        def work(process: Process) -> None:
            try:
                with function.handler(process) as handle:
                    handle({"Records": records}, Context(process, self._world.tasks.clock))
                    if not self._world.plan.platform(PlatformFault.BATCH_AGAIN, function.name):
                        self.relayed[shard] += len(records)
            finally:
                self.relaying.discard(shard)

        return self.start(name, function.name, function.seconds, work)

    def request(
        self,
        function: Function,
        event: Mapping[str, Any],
        check: Callable[[int], int | None],
        answered: Callable[[int | None], object],
    ) -> None:
        """Invoke a function by an HTTP request.

        Args:
            function: the function.
            event: the request, as Lambda's event.
            check: checks the status, and returns it; None if the sender does not receive it.
            answered: called with the status; None if the sender gets no answer.
        """
        if self._world.plan.platform(PlatformFault.THROTTLED, function.name):
            answered(_TOO_MANY)
            return

        def work(process: Process) -> None:
            status = None
            try:
                with function.handler(process) as handle:
                    answer = handle(dict(event), Context(process, self._world.tasks.clock))
                    status = check(answer["statusCode"])
            finally:
                answered(status)

        self.start("", function.name, function.seconds, work)

    def operate(self, work: Callable[[], None], name: str = "") -> Process:
        """Run a command of the operator."""
        return self.start(name, "operator", math.inf, lambda _: work())

    def start(
        self, name: str, function: str, seconds: float, work: Callable[[Process], None]
    ) -> Process:
        """Start a process. Errors of AWS go into the trace, and any other into `error`."""
        self._started += 1
        process = Process(name or f"{function}-{self._started}", self._world.tasks.now + seconds)

        def guarded() -> None:
            try:
                work(process)
            except Killed:
                raise
            except Violation as violation:
                self.error = violation
            except (ClientError, BotoCoreError) as error:
                self._world.log.append(f"{process.name}: {error!r}")
            except Exception as error:
                # Relay and operator raise these when some events are not published.
                if type(error).__name__ not in ("NotRelayed", "OpsError"):
                    self.error = Violation("raised", f"{process.name}: {error!r}")

        self._world.tasks.start(process, guarded)
        return process

    def _check_deleted(self, queue: Queue, message: Message) -> None:
        """Check a deletion by the function itself. The SDK must not see the error."""
        for place in self._service.places.values():
            if queue in place.sources:
                try:
                    self._ledger.check_acknowledgement(place, queue, message)
                except Violation as violation:
                    self.error = violation

    def _delete(self, place: Place, queue: Queue, message: Message, handle: str) -> None:
        queue.delete(handle)
        if place.line.fifo:
            return  # a FIFO queue delivers a deleted message no more
        if self._world.plan.platform(PlatformFault.REDELIVERED, place.line.name):

            def again() -> None:
                message.deleted, message.visible_at = False, self._world.tasks.now

            later = self._world.random.choice([0.0, 1.0, 100.0])
            self._world.tasks.at(self._world.tasks.now + later, again)
