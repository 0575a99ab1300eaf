"""Outgoing events: stored in the dedup record, so that they commit with the changes they report.

Their ids derive from the consumer, the key of the inbound event and their position. If they are
published again, their ids are the same, and consumers deduplicate them. Each names the dedup key of
its record, which the records of its own consumers keep, so that `once trace` finds the cause.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from once.errors import UNREADABLE, InvalidWrite, OnceError, TooLarge, Unpublishable
from once.events._trace_context import passed_on
from once.events.cloud_event import DATAREF, CloudEvent, event_of, read_event
from once.events.dedup_key import consumer_of, key_hash
from once.events.fingerprint import has_plain_numbers
from once.events.message_group import message_group
from once.events.strict_json import MAX_DEPTH
from once.schema import CAUSE_EXTENSION, Limits, Record, source_of

if TYPE_CHECKING:
    from once.claim_check import Claim

GROUP_EXTENSION = "oncegroup"
"""Extension attribute of events without data: the message group that their data gives."""

_ENVELOPE_BYTES = 1024
"""Kept for the message attribute that filter policies read: SNS counts it in the size."""
_MOST_BYTES = Limits.TOPIC_MESSAGE_BYTES - _ENVELOPE_BYTES

_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that a handler publishes: type, data that JSON can hold, subject, message group.

    With a `claim`, the data is stored outside the event. `inline_bytes` is the size of other data,
    where there is a claim-check bucket. `extensions` are further attributes of the event.
    """

    type: str
    data: Any
    subject: str | None
    group: str | None = None
    claim: "Claim | None" = None
    inline_bytes: int = 0
    extensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event of an outbox: its id, source and type, and the whole CloudEvent as JSON text.

    `group` is its message group, once the relay has read it.
    """

    id: str
    source: str
    type: str
    body: str
    group: str | None = None


class _Head(msgspec.Struct):
    """The attributes without which an event cannot be published."""

    id: str
    source: str
    type: str


def draft(
    event_type: str, data: Any, subject: str | None, *, grouped_by: str | None = None
) -> Draft:
    """Return a draft of an event.

    Args:
        event_type: the CloudEvents `type`.
        data: a msgspec.Struct, or anything that JSON can hold.
        subject: the CloudEvents `subject`, if it has one.
        grouped_by: the field of the data that gives the message group, if the type has one.

    Raises:
        InvalidWrite: the data cannot be written as JSON, or its field gives no message group.
    """
    try:
        tree = msgspec.to_builtins(data, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidWrite(f"{event_type} cannot be published: {error}") from None
    return parsed_draft(event_type, tree, subject, grouped_by=grouped_by)


def parsed_draft(
    event_type: str, tree: Any, subject: str | None, *, grouped_by: str | None
) -> Draft:
    """Return a draft of an event whose data is a parsed JSON value, which is not copied.

    Raises:
        InvalidWrite: its field gives no message group.
    """
    if grouped_by is None:
        return Draft(event_type, tree, subject)
    group = message_group(tree, grouped_by)
    if group is None:
        raise InvalidWrite(
            f"{event_type} cannot be published: its message group is the field {grouped_by!r} of "
            "the data, which must be a non-blank string or a whole number; set it, or change "
            "ordered_by= or fair_by= of the consumer that takes this type"
        )
    return Draft(event_type, tree, subject, group)


def written(
    drafts: Sequence[Draft], *, inbound: CloudEvent, pk: str, consumer: str, now: float
) -> str:
    """Return the text of the record's outbox.

    Args:
        drafts: the events that the handler published, in order.
        inbound: the event that the handler ran for.
        pk: the partition key of the dedup record.
        consumer: the consumer's name.
        now: the time of the commit, in seconds since the epoch.

    Raises:
        InvalidWrite: consumers could not read an event.
        TooLarge: an event is over SNS's limit.
    """
    root = key_hash(pk)
    source = source_of(consumer)
    time = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    bodies = []
    for position, event in enumerate(drafts):
        event_id = event_id_of(root, position)
        envelope = {
            "specversion": "1.0",
            "id": event_id,
            "source": source,
            "type": event.type,
            **({} if event.subject is None else {"subject": event.subject}),
            "time": time,
            "datacontenttype": "application/json",
            **event.extensions,
            CAUSE_EXTENSION: pk,
            **passed_on(inbound.extensions, event_id=event_id, root=root),
            **_payload(event),
        }
        bodies.append(_body(envelope))
    return f"[{','.join(bodies)}]"


def _payload(event: Draft) -> dict[str, Any]:
    if event.claim is None:
        return {"data": event.data}
    # The relay finds the message group in the data, which it does not read from S3.
    group = {} if event.group is None else {GROUP_EXTENSION: event.group}
    return {DATAREF: event.claim.reference.uri, **group}


def _body(envelope: Mapping[str, Any]) -> str:
    # Consumers parse strictly. Refused before the commit, an event is not refused by each of them.
    try:
        body = _simple_text(envelope)
        if body is not None:
            event_of(envelope)
        else:
            body = json.dumps(envelope, separators=(",", ":"))
            read_event(body, max_bytes=_MOST_BYTES)
    except TooLarge as error:
        raise TooLarge(f"{envelope['type']} is too large for the topic: {error}") from None
    except (OnceError, TypeError, ValueError, RecursionError) as error:
        raise InvalidWrite(f"{envelope['type']} could be read by no consumer: {error}") from None
    return body


def _simple_text(envelope: Mapping[str, Any]) -> str | None:
    """Return the text of an envelope that parses strictly for sure; None if it has to be tried.

    The text is the one of `json.dumps`, which together with parsing takes twenty times as long.
    """
    if not has_plain_numbers([envelope]):
        return None
    text = _ENCODER.encode(envelope)
    depth = text.count(b"{") + text.count(b"[")
    # json.dumps escapes DEL and everything beyond ASCII.
    is_simple = text.isascii() and b"\x7f" not in text and depth <= MAX_DEPTH
    return text.decode() if is_simple and len(text) <= _MOST_BYTES else None


def events_in(item: Mapping[str, Any]) -> list[OutgoingEvent]:
    """Return the events in a dedup record; none if it has no outbox.

    Args:
        item: the record, in DynamoDB's JSON.

    Raises:
        Unpublishable: the outbox is not one that `written` returned.
    """
    if Record.OUTBOX not in item:
        return []
    try:
        bodies = msgspec.json.decode(item[Record.OUTBOX]["S"], type=list[msgspec.Raw])
        return [_outgoing(bytes(body)) for body in bodies]
    except (KeyError, TypeError, *UNREADABLE) as error:
        raise Unpublishable(f"the record's outbox cannot be read: {error}") from None


def event_id_of(root: str, position: int) -> str:
    """Return the id of an outbox event: the hash of its record's key, and its position there."""
    return f"{root}.{position}"


def check_origin(
    event: OutgoingEvent, position: int | None, pk: str, publishes: Mapping[str, Sequence[str]]
) -> None:
    """Refuse an event that its record's consumer cannot have committed.

    Args:
        event: the event.
        position: its place in the outbox; None if it may have any, as in a sequence item.
        pk: the partition key of the record.
        publishes: the event types that each consumer may publish.

    Raises:
        Unpublishable: the type, source or id does not fit the record's consumer.
    """
    consumer = consumer_of(pk)
    if event.type not in publishes.get(consumer, ()):
        raise Unpublishable(
            f"{consumer} may not publish {event.type}: add the type to publishes= of its "
            "declaration in the CDK app and deploy, or find out who wrote the record"
        )
    if event.source != source_of(consumer):
        raise Unpublishable(
            f"its source is {event.source!r} and not {source_of(consumer)!r}, that of the record's "
            "consumer: find out who wrote the record"
        )
    if not _is_derived(event.id, key_hash(pk), position):
        raise Unpublishable(
            "its id is not derived from the key of its record: find out who wrote the record"
        )


def _is_derived(event_id: str, root: str, position: int | None) -> bool:
    if position is not None:
        return event_id == event_id_of(root, position)
    found, _, place = event_id.rpartition(".")
    return found == root and place.isascii() and place.isdigit()


def _outgoing(body: bytes) -> OutgoingEvent:
    head = msgspec.json.decode(body, type=_Head)
    return OutgoingEvent(head.id, head.source, head.type, body.decode())
