"""One line of a trace: at what time, which consumer did what with an event."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import key_hash
from once.events.outgoing import events_in
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_context import event_of
from once.ops.dedup_records.dedup_table import Item
from once.ops.dedup_records.stored_record import moment_of, text_of, unreadable_points
from once.ops.trace._log_entries import Line
from once.schema import CLOCK_MARGIN_SECONDS, Outcome, Record, Standing, State

Fact = str | int | bool | datetime | list[str]

_STANDINGS: dict[str, str] = {
    Standing.IN_FLIGHT: "in flight: its owner is at it, or died at it",
    Standing.NOT_DONE: "certainly not done",
    Standing.UNKNOWN: "perhaps done: nobody knows",
}


class What(StrEnum):
    """What a consumer did with an event."""

    COMMITTED = "committed"
    REFUSED = "refused"
    PENDING = "pending effect"
    QUARANTINED = "quarantined"
    RETRIED = "will be retried"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of a trace.

    Attributes:
        at: when it happened; None where that is not readable.
        consumer: the consumer's name.
        event_type: the type of the event; None where it is not known.
        what: what the consumer did with it.
        key_hash: the SHA-256 of the dedup key, in hex; None where no consumer got as far.
        facts: more of it, by name.
    """

    at: datetime | None
    consumer: str
    event_type: str | None
    what: What
    key_hash: str | None
    facts: Mapping[str, Fact]


def of_record(item: Item, now: datetime) -> Moment:
    """Return what a dedup record says."""
    pk = item[Record.PK]["S"]
    return Moment(
        at=moment_of(item, Record.COMMITTED_AT),
        consumer=pk.partition("#")[0],
        event_type=text_of(item, Record.EVENT_TYPE),
        what=_what(item),
        key_hash=key_hash(pk),
        facts={"key": pk, **dict(_facts(item, now))},
    )


def of_letter(letter: Letter) -> Moment:
    """Return what a dead letter says."""
    event = event_of(letter)
    facts: dict[str, Fact | None] = {
        "reason": letter.reason or "none was recorded: the function died",
        "error": letter.error,
        "first_seen": letter.first_seen,
        "receive_count": letter.receive_count,
        "message_id": letter.message_id,
        "not_readable": [*letter.unreadable] or None,
        "sent_back": [str(stay) for stay in letter.lineage[:-1]] or None,
    }
    return Moment(
        at=letter.sent_at,
        consumer=letter.box.owner,
        event_type=event.type if isinstance(event, CloudEvent) else None,
        what=What.QUARANTINED,
        key_hash=letter.key_hash,
        facts={name: fact for name, fact in facts.items() if fact is not None},
    )


def of_line(line: Line, event_type: str | None) -> Moment:
    """Return what a line of a log says of one message.

    Args:
        line: the line.
        event_type: the type of the message's event; None where it is not known.
    """
    names = ("reason", "error", "receive_count", "message_id")
    return Moment(
        at=line.at,
        consumer=line.consumer,
        event_type=event_type,
        what=What(line.said),
        key_hash=line.fields.get("key_hash"),
        facts={name: line.fields[name] for name in names if name in line.fields},
    )


def _what(item: Item) -> What:
    if text_of(item, Record.STATE) == State.PENDING:
        return What.PENDING
    refused = text_of(item, Record.OUTCOME) == Outcome.REFUSED
    return What.REFUSED if refused else What.COMMITTED


def _facts(item: Item, now: datetime) -> Iterator[tuple[str, Fact]]:
    for name in (Record.REFUSAL, Record.EFFECT):
        if found := text_of(item, name):
            yield name, found
    if text_of(item, Record.STATE) == State.PENDING:
        yield from _pending(item, now)
    if found := text_of(item, Record.PROVIDER_KEY):
        yield Record.PROVIDER_KEY, found
    yield from _outbox(item)
    expires_at = moment_of(item, Record.EXPIRES_AT)
    if expires_at and expires_at < now - timedelta(seconds=CLOCK_MARGIN_SECONDS):
        yield "expired", expires_at
    if unreadable := unreadable_points(item):
        yield "not_readable", unreadable


def _pending(item: Item, now: datetime) -> Iterator[tuple[str, Fact]]:
    standing = text_of(item, Record.STANDING) or "not recorded"
    yield Record.STANDING, _STANDINGS.get(standing, standing)
    if since := moment_of(item, Record.COMMITTED_AT):
        yield "since", since
    if until := moment_of(item, Record.LEASE_UNTIL):
        yield "leased_until" if until > now else "lease_over_since", until
    if until := moment_of(item, Record.KEY_EXPIRES_AT):
        yield "provider_knows_key_until" if until > now else "provider_forgot_key", until


def _outbox(item: Item) -> Iterator[tuple[str, Fact]]:
    try:
        if types := [event.type for event in events_in(item)]:
            yield "published", types
    except OnceError:  # its text may quote the event
        yield "published", "cannot be read: see the relay's dead letters"
