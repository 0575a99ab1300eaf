"""Lambda and its event source mappings: invocations of consumers, of the relay and commands."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from once.testing.events import sqs_record
from proof.shop.ledger import Oracles, Violation
from proof.shop.service import Context, Function, Handle, Place, Service
from proof.world.messages import Message
from proof.world.plan import PlatformFault
from proof.world.queues import Queue, received
from proof.world.tasks import Killed, Process


class Invocations:
    """Starts invocations, each as a task of its own process.

    Args:
        service: the service.
        ledger: checks each acknowledgement.

    Attributes:
        error: the first violation or unexpected exception of a task.
        relayed: number of stream records that the relay has finished.
        relaying: whether the relay is running. A shard of a stream has one reader.
    """

    def __init__(self, service: Service, ledger: Oracles) -> None:
        self.error: BaseException | None = None
        self.relayed = 0
        self.relaying = False
        self._service = service
        self._world = service.world
        self._ledger = ledger
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

        def work(process: Process) -> None:
            with self._handler(place.function, process) as handle:
                self._handle(place, queue, messages, handle, process)

        return self._start(name, place.function.name, place.function.seconds, work)

    def relay(self, count: int, name: str = "") -> Process:
        """Invoke the relay with the next records of the stream."""
        function = self._service.relay
        records = self._world.tables.stream[self.relayed : self.relayed + count]
        self.relaying = True

        def work(process: Process) -> None:
            try:
                with self._handler(function, process) as handle:
                    handle({"Records": records}, Context(process, self._world.tasks.clock))
                    if not self._world.plan.platform(PlatformFault.BATCH_AGAIN, function.name):
                        self.relayed += len(records)
            finally:
                self.relaying = False

        return self._start(name, function.name, function.seconds, work)

    def operate(self, work: Callable[[], None], name: str = "") -> Process:
        """Run a command of the operator."""
        return self._start(name, "operator", math.inf, lambda _: work())

    def _handle(
        self,
        place: Place,
        queue: Queue,
        messages: Sequence[Message],
        handle: Handle,
        process: Process,
    ) -> None:
        handles = {message.id: message.handles[-1] for message in messages}
        arn = f"a:b:c:d:e:{queue.name}"
        records = [sqs_record(received(message), arn) for message in messages]
        answer = handle({"Records": records}, Context(process, self._world.tasks.clock))
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        if not failed <= handles.keys():
            raise Violation("answer", f"{failed} are not of this batch")
        for message in messages:
            if message.id not in failed:
                self._ledger.check_acknowledgement(place.line.name, queue, message)
                self._delete(place, queue, message, handles[message.id])

    def _check_deleted(self, queue: Queue, message: Message) -> None:
        """Check a deletion by the function itself. The SDK must not see the error."""
        for place in self._service.places.values():
            if queue in place.sources:
                try:
                    self._ledger.check_acknowledgement(place.line.name, queue, message)
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

    @contextmanager
    def _handler(self, function: Function, process: Process) -> Iterator[Handle]:
        """Take the handler of a process, which stays warm unless it is killed."""
        handle = function.take()
        function.busy += 1
        try:
            yield handle
        finally:
            function.busy -= 1
            if not process.dead:
                function.idle.append(handle)

    def _start(
        self, name: str, function: str, seconds: float, work: Callable[[Process], None]
    ) -> Process:
        self._started += 1
        deadline = self._world.tasks.now + seconds
        process = Process(name or f"{function}-{self._started}", deadline)

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
