"""The service: queues, tables and functions of the registry, deployed into a world."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from aws_lambda_powertools import Logger

from once.cdk import ConsumerProps, event_sources
from once.cdk.props import MessageGroups
from once.consumer import Consumer, Runtime
from once.names import RELAY, Limits, Record
from once.outbox.relay import Relay
from once.settings import RelaySettings, Settings, TableSettings
from proof.shop.clients import clients
from proof.world.fifo import FifoQueue
from proof.world.metrics import NO_METRICS
from proof.world.plan import Plan
from proof.world.queues import Queue
from proof.world.tasks import Process
from proof.world.topics import Subscribers
from proof.world.world import World
from stacks.consumers import CONSUMERS

DEDUP = "dedup"
INGRESS, EVENTS = "ingress", "events"
ORDERED_INGRESS, ORDERED_EVENTS = "ingress.fifo", "events.fifo"
DEDUP_WINDOW_SECONDS = 45 * 24 * 60 * 60
RELAY_SECONDS = 60
FIFO_RECEIVES = Limits.MAX_RECEIVE_COUNT

Handle = Callable[[dict[str, Any], Any], Any]


@cache
def _logger(name: str) -> Logger:
    return Logger(service=f"world-{name}", level="CRITICAL")


def shop_consumer(name: str) -> Consumer:
    """Return the handlers of a consumer of the shop."""
    found: Consumer = import_module(f"functions.{name}.handler").consumer
    return found


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

    def take(self) -> Handle:
        """Return the handler of a warm or a new process."""
        return self.idle.pop() if self.idle else self.make()


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


def outputs_of(consumer: Consumer) -> dict[str, Any]:
    """Return event types and key rules of a consumer, as the stack's outputs state them."""
    handlers = consumer.handlers
    return {
        "external": tuple(handlers),
        "keys": {name: one.key for name, one in handlers.items()},
        "volatile": {name: tuple(one.volatile) for name, one in handlers.items()},
    }


class Service:
    """Both stacks, deployed into a world.

    Args:
        plan: the faults.
        seed: of all other random choices.
        world: the class of the world.
        lines: the registry.
        consumer_of: returns the handlers of a consumer, by its name.

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
        world: type[World] = World,
        lines: Sequence[ConsumerProps] = CONSUMERS,
        consumer_of: Callable[[str], Consumer] = shop_consumer,
    ) -> None:
        clients().reset()
        self._lines = lines
        self._consumer_of = consumer_of
        self._groups = MessageGroups.of(lines)
        self.places = {line.name: self._place(line) for line in lines}
        self.relay_dead_letters = Queue(f"{RELAY}-dead")
        self.relay = Function(RELAY, RELAY_SECONDS, self._new_relay, batch=10)
        subscribers = self._subscribers()
        self.world = world(_keys(lines), DEDUP, self._queues(), subscribers, plan, seed)

    def _place(self, line: ConsumerProps) -> Place:
        function = Function(
            line.name, line.timeout_seconds, lambda: self._new_consumer(line), line.batch_size
        )
        consumer = self._consumer_of(line.name)
        if line.fifo:
            dead: Queue = FifoQueue(f"{line.name}-dead.fifo")
            queue: Queue = FifoQueue(f"{line.name}.fifo", line.visibility, FIFO_RECEIVES, dead)
            return Place(line, queue, None, dead, function, consumer)
        dead = Queue(f"{line.name}-dead")
        most = line.max_receive_count + 1
        queue = Queue(line.name, line.visibility, most, dead)
        isolation = Queue(f"{line.name}-isolation", line.visibility, most, dead)
        alone = None if line.batch_size == 1 else isolation
        return Place(line, queue, alone, dead, function, consumer)

    def _queues(self) -> dict[str, Queue]:
        places = self.places.values()
        queues = [queue for place in places for queue in (*place.sources, place.dead_letters)]
        return {url(queue): queue for queue in (*queues, self.relay_dead_letters)}

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
        handle: Handle = self.places[line.name].consumer.bound_to(
            Runtime(settings=self._settings(line), dynamodb=clients().dynamodb, **self._of(line))
        )
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
        return Relay(settings=settings, sns=clients().sns, **self._of(self.relay)).handle

    def _publishes(self) -> dict[str, tuple[str, ...]]:
        return {line.name: line.publishes for line in self._lines}

    def _of(self, function: ConsumerProps | Function) -> dict[str, Any]:
        """Return what a new process of any function is given; its clock may be skewed."""
        skew = self.world.plan.skew(function.name)
        return {
            "sqs": clients().sqs,
            "logger": _logger(function.name),
            "metrics": NO_METRICS,
            "clock": lambda: self.world.tasks.now + skew,
            "sleep": self.world.tasks.pause,
        }

    def _settings(self, line: ConsumerProps) -> Settings:
        place, groups = self.places[line.name], self._groups.among(line.publishes)
        return Settings(
            consumer=line.name,
            event_types=line.event_types,
            sources=event_sources(line, self._lines),
            queue_url=url(place.queue),
            dead_letter_url=url(place.dead_letters),
            dedup_table=DEDUP,
            tables={table.name: TableSettings(table.name, table.keys) for table in line.tables},
            dedup_window_seconds=DEDUP_WINDOW_SECONDS,
            publishes=line.publishes,
            max_receive_count=line.receive_limit,
            effect_timeout_seconds=line.effect_timeout_seconds,
            group_size=line.group_size,
            commit_threads=line.commit_threads,
            isolation_queue_url=None if place.isolation is None else url(place.isolation),
            groups=groups.fields,
            ordered_types=tuple(groups.ordered),
            blocks_group=line.blocks_group,
        )


def url(queue: Queue) -> str:
    """Return the URL of a queue."""
    return f"https://sqs.us-east-1.amazonaws.com/123456789012/{queue.name}"


def _keys(lines: Sequence[ConsumerProps]) -> dict[str, str]:
    tables = {table for line in lines for table in line.tables}
    return {DEDUP: Record.PK, **{table.name: table.keys[0] for table in tables}}
