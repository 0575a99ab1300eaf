"""The service, deployed into a world: queues, tables and functions."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from aws_lambda_powertools import Logger

from once.cdk import ConsumerProps, event_sources
from once.cdk.props import MessageGroups
from once.consumer import Consumer, Runtime
from once.names import RELAY, Limits, Record
from once.outbox.relay import Relay
from once.settings import Dedup, RelaySettings, Settings, TableSettings
from proof.world.clients import NO_METRICS, clients
from proof.world.faults import Plan
from proof.world.queues import Queue, Subscribers
from proof.world.tasks import Process
from proof.world.world import World

DEDUP = "dedup"
INGRESS, EVENTS = "ingress", "events"
ORDERED_INGRESS, ORDERED_EVENTS = "ingress.fifo", "events.fifo"
DEDUP_WINDOW_SECONDS = 45 * 24 * 60 * 60
RELAY_SECONDS = 60
FIFO_RECEIVES = Limits.MAX_RECEIVE_COUNT

Handle = Callable[[dict[str, Any], Any], Any]


@cache
def logger_of(name: str) -> Logger:
    """Return the logger of a function, which is silent."""
    return Logger(service=f"world-{name}", level="CRITICAL")


class Context:
    """Lambda's context, in a world's time."""

    def __init__(self, process: Process, clock: Callable[[], float]) -> None:
        self._process = process
        self._clock = clock

    def get_remaining_time_in_millis(self) -> int:
        """Return the time until the function is killed, in milliseconds."""
        return int((self._process.deadline - self._clock()) * 1000)


@dataclass(slots=True)
class Function:
    """A deployed function.

    Attributes:
        make: makes the handler of a new process.
        idle: the handlers of warm processes.
        busy: number of running invocations.
    """

    name: str
    seconds: float
    make: Callable[[], Handle]
    batch: int
    idle: list[Handle] = field(default_factory=list)
    busy: int = 0

    @contextmanager
    def handler(self, process: Process) -> Iterator[Handle]:
        """Take the handler of a process, which stays warm unless it is killed."""
        handle = self.idle.pop() if self.idle else self.make()
        self.busy += 1
        try:
            yield handle
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
    """Consumers and relay, deployed into a world.

    Args:
        plan: the faults.
        seed: of all other random choices.
        consumers: the handlers of each line of the registry.
        world: the class of the world.

    Attributes:
        places: the consumers, by name.
        relay: the relay's function.
        relay_dead_letters: its dead-letter queue.
        world: the world.
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

    def _place(self, line: ConsumerProps, consumer: Consumer) -> Place:
        function = Function(
            line.name, line.timeout_seconds, partial(self._new_consumer, line), line.batch_size
        )
        kind, most = (".fifo", FIFO_RECEIVES) if line.fifo else ("", line.max_receive_count + 1)
        dead = Queue(f"{line.name}-dead{kind}")
        queue = Queue(f"{line.name}{kind}", line.visibility, most, dead)
        isolation = Queue(f"{line.name}-isolation", line.visibility, most, dead)
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
        runtime = Runtime(
            settings=self._settings(line),
            dynamodb=clients().dynamodb,
            s3=clients().s3,
            sqs=clients().sqs,
            **self.process_of(line.name),
        )
        handle: Handle = self.places[line.name].consumer.bound_to(runtime)
        return handle

    def _new_relay(self) -> Handle:
        settings = RelaySettings(
            service="once",
            topic_arn=EVENTS,
            dead_letter_url=url(self.relay_dead_letters),
            publishes=self._publishes(),
            groups=self._groups.fields,
            ordered_types=tuple(self._groups.ordered),
            ordered_topic_arn=ORDERED_EVENTS,
        )
        relay = Relay(
            settings=settings, sns=clients().sns, sqs=clients().sqs, **self.process_of(RELAY)
        )
        return relay.handle

    def _publishes(self) -> dict[str, tuple[str, ...]]:
        return {line.name: line.publishes for line in self._lines}

    def process_of(self, function: str, steadier: float = 1) -> dict[str, Any]:
        """Return what a new process of any function is given; its clock may be skewed.

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


def url(queue: Queue) -> str:
    """Return the URL of a queue."""
    return f"https://sqs.us-east-1.amazonaws.com/123456789012/{queue.name}"
