"""State of the relay: what it published lately, its delay, and events that no consumer has yet."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from once.errors import OnceError
from once.events.outgoing import OutgoingEvent, events_in
from once.metric_names import Metric
from once.ops.aws.clients import QueueDepth, client, depth
from once.ops.aws.deployment import Deployment
from once.ops.console.figures import Figures, read_figures
from once.ops.dedup_records import DedupRecordReader, Item, RecentOutboxes, time_attribute
from once.ops.trace.event_graph import EventGraph, EventGraphBuilder
from once.schema import Record

PERIOD = timedelta(hours=1)
_UNKNOWN = "a consumer's key rule is not known"
_NO_KEY = "no consumer takes it, or finds a key in it"
MOST_SHOWN = 50
"""Most records whose events are shown."""


@dataclass(frozen=True, slots=True)
class CommittedEvent:
    """An event in an outbox.

    Attributes:
        at: time of its commit.
        pk: the dedup key of its record.
        id: its id; empty if the outbox cannot be read.
        type: its type.
        standing: whether a consumer has a record of it, in words.
        waits: whether every consumer that takes it has none.
    """

    at: datetime | None
    pk: str
    id: str
    type: str
    standing: str
    waits: bool


@dataclass(frozen=True, slots=True)
class RelayState:
    """State of the relay in the last hour.

    Attributes:
        figures: its figures, by the relay's function name.
        dead_letters: depth of its dead-letter queue.
        recent: the records that committed events.
        events: their events, the newest first.
    """

    function: str
    figures: Figures
    dead_letters: QueueDepth
    recent: RecentOutboxes
    events: list[CommittedEvent]

    @property
    def published(self) -> int:
        """Number of events that it published."""
        return int(sum(self.figures.minutes(self.function, [Metric.PUBLISHED])))

    @property
    def lag(self) -> timedelta | None:
        """Longest time from a commit to the topic; None without a figure."""
        most = max(self.figures.minutes(self.function, [Metric.RELAY_LAG_MS]))
        return timedelta(milliseconds=most) if most else None

    @property
    def waiting(self) -> int:
        """Number of shown events of which no consumer has a record."""
        return sum(event.waits for event in self.events)


def read_relay_state(deployment: Deployment, now: datetime) -> RelayState:
    """Return the state of a deployment's relay.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: it cannot be read.
    """
    table = DedupRecordReader.of(client("dynamodb"), deployment)
    recent = table.recent_outboxes(now - PERIOD, MOST_SHOWN)
    graph = EventGraphBuilder(deployment.consumers.values(), table.get, ()).follow(recent.items, ())
    function = deployment.relay_function_name
    metrics = (Metric.PUBLISHED, Metric.RELAY_LAG_MS)
    return RelayState(
        function=function,
        figures=read_figures([function], now, metrics),
        dead_letters=depth(client("sqs"), deployment.relay_dead_letter_url),
        recent=recent,
        events=[event for item in recent.items for event in _events(item, graph)],
    )


def _events(item: Item, graph: EventGraph) -> Iterator[CommittedEvent]:
    at, pk = time_attribute(item, Record.COMMITTED_AT), item[Record.PK]["S"]
    try:
        for event in events_in(item):
            standing, waits = _standing(event, graph)
            yield CommittedEvent(at, pk, event.id, event.type, standing, waits)
    except OnceError:  # the error's text may contain data of the event
        standing = "its outbox cannot be read: see the relay's dead letters"
        yield CommittedEvent(at, pk, "", "–", standing, waits=True)


def _standing(event: OutgoingEvent, graph: EventGraph) -> tuple[str, bool]:
    """Return how far an event has come as the consumers' records tell."""
    keys = graph.keys.get((event.source, event.id), [])
    have = [key for key in keys if key in graph.records]
    if not keys:
        unknown = any(event_type == event.type for _, event_type in graph.unknown)
        return _UNKNOWN if unknown else _NO_KEY, False
    if have:
        return f"{len(have)} of {len(keys)} consumers have a record", False
    return "no consumer has a record yet", True
