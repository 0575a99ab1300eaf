"""The service, deployed into a world: queues, tables and functions, and their invocations."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from types import SimpleNamespace
from typing import Any
from zlib import crc32

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from once.cdk import ConsumerProps, event_sources
from once.cdk.props import MessageGroups
from once.consumer import Consumer, Runtime
from once.names import RELAY, Limits, Record
from once.outbox.relay import Relay
from once.settings import Dedup, RelaySettings, ScheduleSettings, Settings, TableSettings
from once.testing.events import sqs_record
from proof.world.clients import NO_METRICS, clients
from proof.world.faults import Plan, PlatformFault
from proof.world.queues import Message, Queue, Subscribers, received
from proof.world.tasks import Killed, Process
from proof.world.world import World

DEDUP = "dedup"
INGRESS, EVENTS = "ingress", "events"
ORDERED_INGRESS, ORDERED_EVENTS = "ingress.fifo", "events.fifo"
DEDUP_WINDOW_SECONDS = 45 * 24 * 60 * 60
RELAY_SECONDS = 60
_SCHEDULES = ScheduleSettings("due-events", "role", "dead-letters")

Handle = Callable[[dict[str, Any], Any], Any]
_settings: dict[tuple[Any, ...], Settings] = {}


class Violation(Exception):
    """A violation of a clause, the `oracle`."""

    def __init__(self, oracle: str, what: str) -> None:
        super().__init__(oracle, what)
        self.oracle = oracle

    def __str__(self) -> str:
        return ": ".join(self.args)


@cache
def logger_of(name: str) -> Logger:
    """Return the logger of a function, which is silent."""
    return Logger(service=f"world-{name}", level="CRITICAL")


def context(deadline: float, clock: Callable[[], float]) -> Any:
    """Return Lambda's context of a function that is killed at a deadline."""
    return SimpleNamespace(get_remaining_time_in_millis=lambda: int((deadline - clock()) * 1000))


@dataclass(slots=True)
class Function:
    """A deployed function, with the handlers of its idle, warm processes."""

    name: str
    seconds: float
    make: Callable[[], Handle]
    batch: int
    idle: list[Handle] = field(default_factory=list)
    busy: int = 0

    def invoke(self, process: Process, event: dict[str, Any], clock: Callable[[], float]) -> Any:
        """Return the answer of a warm or a new process, which stays warm unless it is killed."""
        process.knows_nothing = not self.idle
        handle = process.instance = self.idle.pop() if self.idle else self.make()
        self.busy += 1
        try:
            return handle(event, context(process.deadline, clock))
        finally:
            self.busy -= 1
            if not process.dead:
                self.idle.append(handle)


@dataclass(frozen=True, slots=True)
class Place:
    """A consumer: its line of the registry, its queues and its function."""

    line: ConsumerProps
    queue: Queue
    isolation: Queue | None
    dead_letters: Queue
    function: Function
    consumer: Consumer

    @property
    def sources(self) -> list[Queue]:
        """The queues that invoke its function."""
        return [self.queue] if self.isolation is None else [self.queue, self.isolation]

    def batch(self, queue: Queue) -> int:
        """Return the batch size of one of its queues."""
        return 1 if queue is self.isolation else self.function.batch


class Service:
    """Consumers and relay, deployed into a world. An invocation is a task of its own process.

    Attributes:
        places: the consumers, by name.
        shards: number of shards of the stream.
        relayed: number of records of each shard that the relay has finished.
        relaying: the shards that have a reader. A shard has one at most.
        acknowledged: called with each message that a function acknowledges; may raise Violation.
        error: the first violation or unexpected exception of a process.
    """

    def __init__(
        self,
        plan: Plan,
        seed: int,
        consumers: Mapping[ConsumerProps, Consumer],
        world: type[World] = World,
    ) -> None:
        clients().reset()
        self._lines = [*consumers]
        self._groups = MessageGroups.of(self._lines)
        self.places = {line.name: self._place(line, one) for line, one in consumers.items()}
        self.relay_dead_letters = Queue(f"{RELAY}-dead")
        self.relay = Function(RELAY, RELAY_SECONDS, self._new_relay, batch=10)
        tables = {table.name: table.keys[0] for line in self._lines for table in line.tables}
        queues = [q for place in self.places.values() for q in (*place.sources, place.dead_letters)]
        by_url = {url(queue): queue for queue in (*queues, self.relay_dead_letters)}
        keys = {DEDUP: Record.PK, **tables}
        self.world = world(keys, DEDUP, by_url, self._subscribers(), plan, seed)
        self.world.tables.plain_writes = any(
            line.dedup is Dedup.ITEM and line.group_size == 1 for line in self._lines
        )
        self.world.queues.deleted = self._check_deleted
        self.shards = 1
        self.relayed: Counter[int] = Counter()
        self.relaying: set[int] = set()
        self.acknowledged: Callable[[Place, Queue, Message], object] = lambda *_: None
        self.error: BaseException | None = None
        self._started = 0

    def _place(self, line: ConsumerProps, consumer: Consumer) -> Place:
        function = Function(
            line.name, line.timeout_seconds, partial(self._new_consumer, line), line.batch_size
        )
        most = line.max_receive_count
        kind, limit = (".fifo", Limits.MAX_RECEIVE_COUNT) if line.fifo else ("", most)
        dead = Queue(f"{line.name}-dead{kind}")
        queue = Queue(f"{line.name}{kind}", line.visibility, limit, dead)
        isolation = Queue(f"{line.name}-isolation", line.visibility, most + 1, dead)
        alone = None if line.fifo or line.batch_size == 1 else isolation
        return Place(line, queue, alone, dead, function, consumer)

    def _subscribers(self) -> Subscribers:
        found: dict[str, dict[str, list[Queue]]] = {
            topic: defaultdict(list) for topic in (INGRESS, EVENTS, ORDERED_INGRESS, ORDERED_EVENTS)
        }
        for place in self.places.values():
            for topic, types in ((INGRESS, place.line.external), (EVENTS, place.line.events)):
                for event_type in types:
                    is_ordered = event_type in self._groups.ordered
                    found[f"{topic}.fifo" if is_ordered else topic][event_type].append(place.queue)
        return found

    def _new_consumer(self, line: ConsumerProps) -> Handle:
        # The same for each process, and a tenth of its time: made and checked once.
        consumer = self.places[line.name].consumer
        known = (type(self), DEDUP_WINDOW_SECONDS, consumer, line, *self._lines)
        if is_new := known not in _settings:
            _settings[known] = self._settings(line)
        runtime = Runtime(
            settings=_settings[known],
            dynamodb=clients().dynamodb,
            s3=clients().s3,
            sqs=clients().sqs,
            **self.process_of(line.name),
        )
        return consumer.bound_to(runtime) if is_new else consumer._processor(runtime).handle  # noqa: SLF001

    def _new_relay(self) -> Handle:
        settings = RelaySettings(
            service="once",
            topic_arn=EVENTS,
            dead_letter_url=url(self.relay_dead_letters),
            publishes=self._publishes(),
            groups=self._groups.fields,
            ordered_types=tuple(self._groups.ordered),
            ordered_topic_arn=ORDERED_EVENTS,
            schedules=_SCHEDULES if any(each.publishes_later for each in self._lines) else None,
        )
        relay = Relay(
            settings=settings,
            sns=clients().sns,
            sqs=clients().sqs,
            scheduler=clients().scheduler,
            **self.process_of(RELAY),
        )
        return relay.handle

    def _publishes(self) -> dict[str, tuple[str, ...]]:
        return {line.name: line.publishes for line in self._lines}

    def process_of(self, function: str, steadier: float = 1) -> dict[str, Any]:
        """Return what a new process of a function is given; its clock may be skewed.

        Args:
            function: the function's name.
            steadier: factor by which its clock is better than others.
        """
        skew = self.world.plan.skew(function) / steadier
        return {
            "logger": logger_of(function),
            "metrics": NO_METRICS,
            "clock": lambda: self.world.tasks.now + skew,
            "sleep": self.world.tasks.pause,
        }

    def _settings(self, line: ConsumerProps) -> Settings:
        place, groups = self.places[line.name], self._groups.among(line.publishes)
        return Settings(
            **line.settings,
            sources=event_sources(line, self._lines),
            queue_url=url(place.queue),
            dead_letter_url=url(place.dead_letters),
            dedup_table=DEDUP,
            tables={table.name: TableSettings(table.name, table.keys) for table in line.tables},
            dedup_window_seconds=DEDUP_WINDOW_SECONDS,
            isolation_queue_url=None if place.isolation is None else url(place.isolation),
            groups=groups.fields,
            ordered_types=tuple(groups.ordered),
        )

    def consume(
        self, place: Place, queue: Queue, messages: Sequence[Message], name: str = ""
    ) -> Process:
        """Invoke a consumer with messages that were just received; the process may have a name."""
        handles = {message.id: message.handles[-1] for message in messages}
        arn = f"a:b:c:d:e:{queue.name}"
        records = [sqs_record(received(message), arn) for message in messages]

        def work(process: Process) -> None:
            answer = place.function.invoke(process, {"Records": records}, self.world.tasks.clock)
            failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            if not failed <= handles.keys():
                raise Violation("answer", f"{failed} are not of this batch")
            for message in messages:
                if message.id not in failed:
                    self.acknowledged(place, queue, message)
                    self._delete(place, queue, message, handles[message.id])

        process = self.start(name, place.function.name, place.function.seconds, work)
        for message in messages:
            message.receivers.append(process)
        return process

    def unread(self, shard: int) -> list[Any]:
        """Return the records of a shard that the relay has not finished."""
        stream, done = self.world.tables.stream, self.relayed[shard]
        if self.shards == 1:
            return stream[done:]
        keys = [record["dynamodb"]["Keys"][Record.PK]["S"] for record in stream]
        shards = [crc32(key.encode()) % self.shards for key in keys]
        return [record for record, own in zip(stream, shards, strict=True) if own == shard][done:]

    def relay_next(self, shard: int, count: int, name: str = "") -> Process:
        """Invoke the relay with the next records of a shard of the stream."""
        function, records = self.relay, self.unread(shard)[:count]
        self.relaying.add(shard)

        def work(process: Process) -> None:
            try:
                function.invoke(process, {"Records": records}, self.world.tasks.clock)
                if not self.world.plan.platform(PlatformFault.BATCH_AGAIN, function.name):
                    self.relayed[shard] += len(records)
            finally:
                self.relaying.discard(shard)

        return self.start(name, function.name, function.seconds, work)

    def operate(self, work: Callable[[], None], name: str = "") -> Process:
        """Run a command of the operator."""
        return self.start(name, "operator", math.inf, lambda _: work())

    def start(
        self, name: str, function: str, seconds: float, work: Callable[[Process], None]
    ) -> Process:
        """Start a process. Errors of AWS go into the trace, and any other into `error`."""
        self._started += 1
        process = Process(name or f"{function}-{self._started}", self.world.tasks.now + seconds)

        def guarded() -> None:
            try:
                work(process)
            except Killed:
                raise
            except Violation as violation:
                self.error = violation
            except (ClientError, BotoCoreError) as error:
                self.world.log.append(f"{process.name}: {error!r}")
            except Exception as error:
                # Relay and operator raise these when some events are not published.
                if type(error).__name__ not in ("NotRelayed", "OpsError"):
                    self.error = Violation("raised", f"{process.name}: {error!r}")

        self.world.tasks.start(process, guarded)
        return process

    def _check_deleted(self, queue: Queue, message: Message) -> None:
        """Check a deletion by the function itself. The SDK must not see the error."""
        for place in self.places.values():
            if queue in place.sources:
                try:
                    self.acknowledged(place, queue, message)
                except Violation as violation:
                    self.error = violation

    def _delete(self, place: Place, queue: Queue, message: Message, handle: str) -> None:
        queue.delete(handle)
        if place.line.fifo:
            return  # a FIFO queue delivers a deleted message no more
        if self.world.plan.platform(PlatformFault.REDELIVERED, place.line.name):

            def again() -> None:
                message.deleted, message.visible_at = False, self.world.tasks.now

            later = self.world.random.choice([0.0, 1.0, 100.0])
            self.world.tasks.at(self.world.tasks.now + later, again)


def url(queue: Queue) -> str:
    """Return the URL of a queue."""
    return f"https://sqs.us-east-1.amazonaws.com/123456789012/{queue.name}"
