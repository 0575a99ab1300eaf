"""Timeline entry: the time, the consumer, and its action on an event."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import key_hash
from once.events.outgoing import events_in
from once.ops.dead_letters.assessment import event_of
from once.ops.dead_letters.letter import Letter
from once.ops.dedup_records.dedup_table import Item
from once.ops.dedup_records.stored_record import text_attribute, time_attribute, unreadable_times
from once.ops.terminal.formatting import format_time
from once.ops.trace._log_entries import LogEntry
from once.schema import CLOCK_MARGIN_SECONDS, Outcome, Record, Standing, State

_IN_JSON_ONLY = frozenset({"key"})

DetailValue = str | int | bool | datetime | list[str]

_STANDINGS: dict[str, str] = {
    Standing.IN_FLIGHT: "in flight: its owner is calling the provider, or died",
    Standing.NOT_DONE: "certainly not done",
    Standing.UNKNOWN: "unknown: it may have been done",
    Standing.SETTLED: "settled: its outcome is known, and not committed yet",
}


class EntryKind(StrEnum):
    """Action of a consumer on an event."""

    COMMITTED = "committed"
    REFUSED = "refused"
    PENDING = "pending effect"
    QUARANTINED = "quarantined"
    RETRIED = "will be retried"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """An entry of the timeline.

    Attributes:
        at: time of the action; None if not readable.
        consumer: the consumer's name.
        event_type: the event's type; None if not known.
        kind: the action.
        key_hash: the SHA-256 of the dedup key, in hex; None if no key was computed.
        details: further values, by name.
    """

    at: datetime | None
    consumer: str
    event_type: str | None
    kind: EntryKind
    key_hash: str | None
    details: Mapping[str, DetailValue]

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield name and value of each detail for a reader, without the key, which may be data."""
        for name, fact in self.details.items():
            if name not in _IN_JSON_ONLY:
                yield name.replace("_", " "), _detail_text(fact)


def _detail_text(fact: DetailValue) -> str:
    match fact:
        case datetime():
            return format_time(fact)
        case list():
            return ", ".join(fact)
        case _:
            return str(fact)


def record_entry(item: Item, now: datetime) -> TimelineEntry:
    """Return the entry of a dedup record."""
    pk = item[Record.PK]["S"]
    return TimelineEntry(
        at=time_attribute(item, Record.COMMITTED_AT),
        consumer=pk.partition("#")[0],
        event_type=text_attribute(item, Record.EVENT_TYPE),
        kind=_record_kind(item),
        key_hash=key_hash(pk),
        details={"key": pk, **dict(_record_details(item, now))},
    )


def letter_entry(letter: Letter) -> TimelineEntry:
    """Return the entry of a dead letter."""
    event = event_of(letter)
    details: dict[str, DetailValue | None] = {
        "key": letter.key,
        "reason": letter.reason or "none was recorded: the function died",
        "error": letter.error,
        "first_seen": letter.first_seen,
        "receive_count": letter.receive_count,
        "message_id": letter.message_id,
        "not_readable": [*letter.unreadable] or None,
        "sent_back": [str(stay) for stay in letter.lineage[:-1]] or None,
    }
    return TimelineEntry(
        at=letter.sent_at,
        consumer=letter.queue.owner,
        event_type=event.type if isinstance(event, CloudEvent) else None,
        kind=EntryKind.QUARANTINED,
        key_hash=letter.key and key_hash(letter.key),
        details={name: fact for name, fact in details.items() if fact is not None},
    )


def log_timeline_entry(entry: LogEntry, event_type: str | None) -> TimelineEntry:
    """Return the entry of a log entry.

    Args:
        entry: the entry.
        event_type: the event's type; None if not known.
    """
    names = ("reason", "error", "receive_count", "message_id")
    return TimelineEntry(
        at=entry.at,
        consumer=entry.consumer,
        event_type=event_type,
        kind=EntryKind(entry.message),
        key_hash=entry.fields.get("key_hash"),
        details={name: entry.fields[name] for name in names if name in entry.fields},
    )


def _record_kind(item: Item) -> EntryKind:
    if text_attribute(item, Record.STATE) == State.PENDING:
        return EntryKind.PENDING
    refused = text_attribute(item, Record.OUTCOME) == Outcome.REFUSED
    return EntryKind.REFUSED if refused else EntryKind.COMMITTED


def _record_details(item: Item, now: datetime) -> Iterator[tuple[str, DetailValue]]:
    for name in (Record.REFUSAL, Record.EFFECT):
        if found := text_attribute(item, name):
            yield name, found
    if text_attribute(item, Record.STATE) == State.PENDING:
        yield from _pending(item, now)
    if found := text_attribute(item, Record.PROVIDER_KEY):
        yield Record.PROVIDER_KEY, found
    yield from _outbox(item)
    expires_at = time_attribute(item, Record.EXPIRES_AT)
    if expires_at and expires_at < now - timedelta(seconds=CLOCK_MARGIN_SECONDS):
        yield "expired", expires_at
    if unreadable := unreadable_times(item):
        yield "not_readable", unreadable


def _pending(item: Item, now: datetime) -> Iterator[tuple[str, DetailValue]]:
    standing = text_attribute(item, Record.STANDING) or "not recorded"
    yield Record.STANDING, _STANDINGS.get(standing, standing)
    if since := time_attribute(item, Record.COMMITTED_AT):
        yield "since", since
    if until := time_attribute(item, Record.LEASE_UNTIL):
        yield "leased_until" if until > now else "lease_over_since", until
    if until := time_attribute(item, Record.KEY_EXPIRES_AT):
        yield "provider_knows_key_until" if until > now else "provider_forgot_key", until


def _outbox(item: Item) -> Iterator[tuple[str, DetailValue]]:
    try:
        if types := [event.type for event in events_in(item)]:
            yield "published", types
    except OnceError:  # the error's text may contain data of the event
        yield "published", "cannot be read: see the relay's dead letters"
