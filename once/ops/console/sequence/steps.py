"""Steps: the entries of a timeline as arrows between the parts of a service."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from once.ops.aws.deployment import Deployment
from once.ops.trace.timeline import EntryKind, TimelineEntry
from once.schema import RELAY, Record

PRODUCER = "producer"
TABLE = "dedup table"
TOPIC = "relay and topic"
PROVIDER = "provider"
DEAD_LETTERS = "dead letters"

_DELIVERED = "delivered"
_PUBLISHED = "published"
_EFFECT = "effect"


@dataclass(frozen=True, slots=True)
class Step:
    """An arrow from one lane to another; `kind` is the class of its colour."""

    at: datetime | None
    source: str
    target: str
    kind: str
    label: str


def steps_of(
    entries: Iterable[TimelineEntry], internal: Mapping[str, Collection[str]]
) -> list[Step]:
    """Return the steps of a timeline, in its order.

    Args:
        entries: the entries, the oldest first.
        internal: the event types that each consumer takes from other consumers, by the consumer's
            name and by its identity.
    """
    return [step for entry in entries for step in _steps(entry, internal)]


def internal_types(deployment: Deployment) -> dict[str, Collection[str]]:
    """Return the event types that each consumer takes from others, by its name and identity."""
    consumers = deployment.consumers.values()
    return {name: one.events for one in consumers for name in (one.name, one.identity)}


def _steps(entry: TimelineEntry, internal: Mapping[str, Collection[str]]) -> Iterator[Step]:
    if entry.consumer == RELAY:
        yield from _relay_steps(entry)
        return
    source = TOPIC if entry.event_type in internal.get(entry.consumer, ()) else PRODUCER
    event_type = entry.event_type or "event"
    match entry.kind:
        case EntryKind.DUPLICATE | EntryKind.RETRIED:
            label = f"{event_type}: {_received(entry)}"
            yield Step(entry.at, source, entry.consumer, _name(entry.kind), label)
        case EntryKind.QUARANTINED:
            yield Step(entry.at, source, entry.consumer, _DELIVERED, event_type)
            yield Step(None, entry.consumer, DEAD_LETTERS, _name(entry.kind), _reason(entry))
        case _:
            yield Step(entry.at, source, entry.consumer, _DELIVERED, event_type)
            yield from _record_steps(entry)


def _record_steps(entry: TimelineEntry) -> Iterator[Step]:
    """Yield the steps of a dedup record: an intent before its effect, a commit after it."""
    effect = entry.details.get(Record.EFFECT)
    call = Step(None, entry.consumer, PROVIDER, _EFFECT, f"effect {effect}")
    if effect and entry.kind is not EntryKind.PENDING:
        yield call
    yield Step(None, entry.consumer, TABLE, _name(entry.kind), _outcome(entry))
    if effect and entry.kind is EntryKind.PENDING:
        yield call
    if published := entry.details.get("published"):
        types = ", ".join(published) if isinstance(published, list) else "cannot be read"
        yield Step(None, TABLE, TOPIC, _PUBLISHED, types)


def _relay_steps(entry: TimelineEntry) -> Iterator[Step]:
    yield Step(entry.at, TOPIC, DEAD_LETTERS, _name(entry.kind), _reason(entry))


def _outcome(entry: TimelineEntry) -> str:
    match entry.kind:
        case EntryKind.REFUSED:
            return f"refused: {entry.details.get(Record.REFUSAL, 'no name')}"
        case EntryKind.PENDING:
            standing = str(entry.details.get(Record.STANDING, "not recorded"))
            return f"pending: {standing.partition(':')[0]}"
        case _:
            return str(entry.kind)


def _received(entry: TimelineEntry) -> str:
    count = entry.details.get("receive_count")
    return f"{entry.kind} (receive {count})" if count else str(entry.kind)


def _reason(entry: TimelineEntry) -> str:
    return str(entry.details.get("reason", entry.kind))


def _name(kind: EntryKind) -> str:
    """Return the class of a kind: its first word, or `retried`."""
    return "retried" if kind is EntryKind.RETRIED else kind.partition(" ")[0]
