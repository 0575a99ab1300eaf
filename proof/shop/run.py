"""One run of the shop: traffic, turns by chance, faults, and then rest."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from once.ops.dead_letters.queue_walk import HOLD_SECONDS
from once.testing.events import sqs_record
from proof.shop.ledger import Ledger, Violation
from proof.shop.operator import Operator, on_time
from proof.shop.sending import send_all, send_late_copies
from proof.shop.service import (
    DEDUP,
    Context,
    Function,
    Handle,
    Place,
    Service,
)
from proof.shop.traffic import Traffic
from proof.world.plan import Mishap, Plan
from proof.world.queues import Message, Queue, received
from proof.world.tasks import Killed, Process

MOST_TURNS = 50_000
_SIDE_BY_SIDE = 2
"""How many of one function run at the same time."""
_OUTLIVES_ALL = 46 * 24 * 60 * 60

Turn = Callable[[], None]


class Run:
    """One run. The same plan, traffic and seed make the same course.

    Args:
        plan: what goes wrong.
        traffic: what is sent.
        seed: of the turns.
    """

    def __init__(self, plan: Plan, traffic: Traffic, seed: int) -> None:
        self.service = Service(plan, seed)
        self.world = self.service.world
        self.ledger = Ledger(self.service, traffic)
        self.world.queues.deleted = self._check_deleted
        self._traffic = traffic
        self._plan = plan
        self._relayed = 0
        self._relaying = False
        self._operator = Operator(self.service)
        self._started = 0
        self._fault: BaseException | None = None

    def violation(self) -> Violation | None:
        """Run to the end, and return what was broken; None if all was kept."""
        try:
            with self.world.open(), on_time(self.world.tasks.clock):
                send_all(self.service, self._traffic)
                self._to_rest()
                self._plan.off = True
                self._heal()
                self.ledger.check_rest()
                send_late_copies(self.service, self._traffic)
                self._to_rest()
                self.ledger.check_rest()
                self._forget()
                self.ledger.check_rest()
        except Violation as violation:
            return violation
        return None

    def _heal(self) -> None:
        """Without faults, and with an operator who sends back what is safe to send."""
        for _ in range(2):
            self._operator.comes_again()
            self._to_rest()
            # What a killed walk has hidden is seen again, and the operator comes once more.
            self.world.tasks.now += HOLD_SECONDS

    def _forget(self) -> None:
        """Let so much time pass that every record has expired, and TTL remove them."""
        self.world.tasks.now += _OUTLIVES_ALL
        now = self.world.tasks.now
        for key, item in [*self.world.tables.items[DEDUP].items()]:
            if "expires_at" in item and int(item["expires_at"]["N"]) < now:
                self.world.tables.remove(DEDUP, key)
        self._to_rest()

    def _to_rest(self) -> None:
        for _ in range(MOST_TURNS):
            self.world.tasks.fire()
            if turns := list(self._turns()):
                self.world.random.choice(turns)()
                if self._fault is not None:
                    raise self._fault
                self.ledger.check_state()
            elif (due := self._next_time()) < math.inf:
                self.world.tasks.now = due
            else:
                return
        raise Violation("never at rest", f"after {MOST_TURNS} turns")

    def _turns(self) -> Iterator[Turn]:
        """What can go on now."""
        for task in self.world.tasks.ready:
            yield lambda task=task: self.world.tasks.run(task)  # type: ignore[misc]
        for place in self.service.places.values():
            for queue in place.sources if place.function.busy < _SIDE_BY_SIDE else ():
                if self._is_visible(queue):
                    yield partial(self._invoke, place, queue)
        if self._relayed < len(self.world.tables.stream) and not self._relaying:
            yield self._relay
        if self._operator.is_due:
            yield self._operate

    def _is_visible(self, queue: Queue) -> bool:
        now = self.world.tasks.now
        return any(message.visible_at <= now for message in queue.waiting)

    def _next_time(self) -> float:
        """When there is something to do that there is not now."""
        queues = [queue for place in self.service.places.values() for queue in place.sources]
        messages = [message for queue in queues for message in queue.waiting]
        hidden = [m.visible_at for m in messages if m.visible_at > self.world.tasks.now]
        return min([self.world.tasks.next_time, self._operator.next_time, *hidden])

    def _invoke(self, place: Place, queue: Queue) -> None:
        count = self.world.random.randint(1, place.batch(queue))
        messages = queue.receive(count, self.world.tasks.now)
        if not messages:
            return
        if self._plan.mishap(Mishap.THROTTLED, place.line.name):
            queue.waste(messages, self.world.tasks.now)
            return
        if self._plan.mishap(Mishap.VISIBLE_EARLY, place.line.name):
            messages[0].visible_at = self.world.tasks.now + self.world.random.random()
        process = self._process(place.line.name, place.function.seconds)

        def work() -> None:
            with self._one_of(place.function, process) as handle:
                self._work(place, queue, messages, handle, process)

        self._start(process, work)

    def _work(
        self,
        place: Place,
        queue: Queue,
        messages: list[Message],
        handle: Handle,
        process: Process,
    ) -> None:
        handles = {message.id: message.handles[-1] for message in messages}
        arn = f"a:b:c:d:e:{queue.name}"
        records = [sqs_record(received(message), arn) for message in messages]
        answer = handle({"Records": records}, Context(process, self.world.tasks.clock))
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        if not failed <= handles.keys():
            raise Violation("answer", f"{failed} are not of this batch")
        for message in messages:
            if message.id not in failed:
                self.ledger.check_acknowledgement(place.line.name, queue, message)
                self._delete(place, queue, message, handles[message.id])

    def _check_deleted(self, queue: Queue, message: Message) -> None:
        """See that a function deletes as rightly as it answers. The SDK must not see the error."""
        for place in self.service.places.values():
            if queue in place.sources:
                try:
                    self.ledger.check_acknowledgement(place.line.name, queue, message)
                except Violation as violation:
                    self._fault = violation

    def _delete(self, place: Place, queue: Queue, message: Message, handle: str) -> None:
        queue.delete(handle)
        if self._plan.mishap(Mishap.REDELIVERED, place.line.name):

            def again() -> None:
                message.deleted, message.visible_at = False, self.world.tasks.now

            later = self.world.random.choice([0.0, 1.0, 100.0])
            self.world.tasks.at(self.world.tasks.now + later, again)

    def _relay(self) -> None:
        function = self.service.relay
        count = self.world.random.randint(1, function.batch)
        records = self.world.tables.stream[self._relayed : self._relayed + count]
        if self._plan.mishap(Mishap.DROPPED, function.name):
            self._relayed += len(records)
            self._operator.hears_of_loss()
            return
        process = self._process(function.name, function.seconds)
        self._relaying = True

        def work() -> None:
            try:
                with self._one_of(function, process) as handle:
                    handle({"Records": records}, Context(process, self.world.tasks.clock))
                    if not self._plan.mishap(Mishap.BATCH_AGAIN, function.name):
                        self._relayed += len(records)
            finally:
                self._relaying = False

        self._start(process, work)

    def _operate(self) -> None:
        self._start(self._process("operator", math.inf), self._operator.begin())

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

    def _process(self, name: str, seconds: float) -> Process:
        self._started += 1
        return Process(f"{name}-{self._started}", self.world.tasks.now + seconds)

    def _start(self, process: Process, work: Turn) -> None:
        def guarded() -> None:
            try:
                work()
            except Killed:
                raise
            except Violation as violation:
                self._fault = violation
            except (ClientError, BotoCoreError) as error:
                self.world.log.append(f"{process.name}: {error!r}")
            except Exception as error:
                self._expected(process, error)

        self.world.tasks.start(process, guarded)

    def _expected(self, process: Process, error: Exception) -> None:
        """Relay and operator say so when they have not published all; nobody else may fail."""
        if type(error).__name__ not in ("NotRelayed", "OpsError"):
            self._fault = Violation("raised", f"{process.name}: {error!r}")
