"""Lambda and its event source mappings: invoke a function with messages, and act on its answer."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from once.testing.events import sqs_record
from proof.shop.ledger import Ledger, Violation
from proof.shop.service import Context, Function, Handle, Place, Service
from proof.world.plan import Mishap
from proof.world.queues import Message, Queue, received
from proof.world.tasks import Killed, Process


class Invocations:
    """Invokes consumers, the relay and the operator, each as a task of a process of its own.

    Args:
        service: the service.
        ledger: checks each acknowledgement.

    Attributes:
        error: the first violation or unexpected exception in a task; None while there is none.
        relayed: how many stream records the relay has passed.
        relaying: whether the relay is running. A shard of a stream has one reader.
    """

    def __init__(self, service: Service, ledger: Ledger) -> None:
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
        """Invoke a consumer with messages that were just received.

        Args:
            place: the consumer.
            queue: where they were received.
            messages: the messages.
            name: of the process; numbered by default.
        """
        process = self._process(name or place.line.name, place.function.seconds, named=bool(name))

        def work() -> None:
            with self._one_of(place.function, process) as handle:
                self._work(place, queue, messages, handle, process)

        return self._start(process, work)

    def relay(self, count: int, name: str = "") -> Process:
        """Invoke the relay with the next records of the stream.

        Args:
            count: how many records.
            name: of the process; numbered by default.
        """
        function = self._service.relay
        records = self._world.tables.stream[self.relayed : self.relayed + count]
        process = self._process(name or function.name, function.seconds, named=bool(name))
        self.relaying = True

        def work() -> None:
            try:
                with self._one_of(function, process) as handle:
                    handle({"Records": records}, Context(process, self._world.tasks.clock))
                    if not self._world.plan.mishap(Mishap.BATCH_AGAIN, function.name):
                        self.relayed += len(records)
            finally:
                self.relaying = False

        return self._start(process, work)

    def operate(self, work: Callable[[], None], name: str = "") -> Process:
        """Run a command of the operator."""
        return self._start(self._process(name or "operator", math.inf, named=bool(name)), work)

    def _work(
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
        if self._world.plan.mishap(Mishap.REDELIVERED, place.line.name):

            def again() -> None:
                message.deleted, message.visible_at = False, self._world.tasks.now

            later = self._world.random.choice([0.0, 1.0, 100.0])
            self._world.tasks.at(self._world.tasks.now + later, again)

    @contextmanager
    def _one_of(self, function: Function, process: Process) -> Iterator[Handle]:
        """Give one of a function's processes; it stays warm, unless it is killed."""
        handle = function.take()
        function.busy += 1
        try:
            yield handle
        finally:
            function.busy -= 1
            if not process.dead:
                function.idle.append(handle)

    def _process(self, name: str, seconds: float, *, named: bool) -> Process:
        self._started += 1
        full_name = name if named else f"{name}-{self._started}"
        return Process(full_name, self._world.tasks.now + seconds)

    def _start(self, process: Process, work: Callable[[], None]) -> Process:
        def guarded() -> None:
            try:
                work()
            except Killed:
                raise
            except Violation as violation:
                self.error = violation
            except (ClientError, BotoCoreError) as error:
                self._world.log.append(f"{process.name}: {error!r}")
            except Exception as error:
                self._check_expected(process, error)

        self._world.tasks.start(process, guarded)
        return process

    def _check_expected(self, process: Process, error: Exception) -> None:
        """Relay and operator raise when they have not published all; no other process may fail."""
        if type(error).__name__ not in ("NotRelayed", "OpsError"):
            self.error = Violation("raised", f"{process.name}: {error!r}")
