"""Outgoing events: stored in the dedup record, so that they commit with the changes they report.

Their ids derive from the consumer, the key of the inbound event and their position. If they are
published again, their ids are the same, and consumers deduplicate them. Each names the dedup key of
its record, which the records of its own consumers keep, so that `once trace` finds the cause.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import ceil, floor
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from once.errors import UNREADABLE, InvalidWrite, OnceError, TooLarge, Unpublishable
from once.events.cloud_event import DATAREF, CloudEvent, event_of, fault_text, read_event
from once.events.identity import consumer_of, has_plain_numbers, key_hash, message_group
from once.events.strict_json import MAX_DEPTH, Number, parse
from once.names import CAUSE_EXTENSION, DUE_EXTENSION, SOURCE_PREFIX, Limits, Record

if TYPE_CHECKING:
    from once.events.claim_check import Claim

GROUP_EXTENSION = "oncegroup"
"""Extension attribute of events without data: the message group that their data gives."""

_MAX_BYTES = Limits.TOPIC_MESSAGE_BYTES - 1024
"""The rest is for the message attribute that filter policies read: SNS counts it in the size."""

_INLINE_BYTES = Limits.TOPIC_MESSAGE_BYTES - 16 * 1024
"""With a claim-check bucket, the most data of one event. The rest of a message is its envelope."""
_OUTBOX_BYTES = 300 * 1024
"""The most data of all events in a record, of the 400 KB of an item."""

_MAX_WAIT = timedelta(days=365)
_SCHEDULE_BYTES = Limits.SCHEDULE_INPUT_BYTES - 1024
"""Of the text of a due event in its schedule. The rest is for the topic, and the event's type."""


def _as_read(number: Number) -> msgspec.Raw:
    return msgspec.Raw(number.digits.encode())


_ENCODER = msgspec.json.Encoder(enc_hook=_as_read)

_MAX_STATE_CHARACTERS, _MAX_STATE_MEMBERS = 512, 32
"""Limits of W3C for `tracestate`: the characters to keep at least, and the members at most."""
_TRACEPARENT = re.compile(
    r"00-(?P<trace>(?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})"
)


class Draft(Struct, frozen=True):
    """An event that a handler publishes: type, data that JSON can hold, subject, message group.

    With a `claim`, the data is stored outside the event. `inline_bytes` is the size of other data,
    where there is a claim-check bucket. `extensions` are further attributes of the event. `wait` is
    the time from the commit to the publishing, or that of the publishing; None is at once.
    """

    type: str
    data: Any
    subject: str | None
    group: str | None = None
    claim: "Claim | None" = None
    inline_bytes: int = 0
    extensions: Mapping[str, str] = field(default_factory=dict)
    wait: timedelta | datetime | None = None


class OutgoingEvent(Struct, frozen=True):
    """An event of an outbox: its id, source and type, and the whole CloudEvent as JSON text.

    `group` is its message group, once the relay has read it. `due` is the time of a due event, in
    seconds since the epoch.
    """

    id: str
    source: str
    type: str
    body: str
    group: str | None = None
    due: int | None = None


class _Head(msgspec.Struct):
    """The attributes without which an event cannot be published, and those of a due event."""

    id: str
    source: str
    type: str
    time: Any = None
    oncedue: Any = None

    @property
    def due(self) -> int | None:
        """The time of a due event, in seconds since the epoch.

        Raises:
            TypeError, ValueError, OverflowError: its time is none.
        """
        return None if self.oncedue is None else ceil(datetime.fromisoformat(self.time).timestamp())


def draft(
    event_type: str, data: Any, subject: str | None, *, grouped_by: str | None = None
) -> Draft:
    """Return a draft of an event.

    The data is an object of a model, or anything that JSON can hold. Its field `grouped_by` gives
    the message group, if the type has one.

    Raises:
        InvalidWrite: the data cannot be written as JSON, or its field gives no message group.
    """
    from once.events.models import as_builtins  # the relay has no objects

    try:
        tree = as_builtins(data)
    except (InvalidWrite, TypeError, ValueError, RecursionError) as error:
        raise InvalidWrite(f"{event_type} cannot be published: {fault_text(error)}") from None
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


def wait_of(
    event_type: str, after: timedelta | None, at: datetime | None
) -> timedelta | datetime | None:
    """Return the one of the two that is given; None for an event that is published at once.

    Raises:
        InvalidWrite: both are given, one is of another type, or the time has no zone.
    """
    fault = ""
    if after is not None and at is not None:
        fault = "both after= and at=: give one of them"
    elif not isinstance(after, timedelta | None) or not isinstance(at, datetime | None):
        fault = "a time of another type: give after=timedelta(…), or at=datetime(…, tzinfo=…)"
    elif at is not None and at.utcoffset() is None:
        fault = "at= without a time zone: give datetime(…, tzinfo=ZoneInfo(…)), or UTC"
    if fault:
        raise InvalidWrite(f"{event_type} has {fault}")
    return at if after is None else after


def due_time(event: Draft, now: float) -> int | None:
    """Return when a due event is due, if it is committed now, in seconds since the epoch.

    Raises:
        InvalidWrite: that is more than a year ahead.
    """
    if event.wait is None:
        return None
    wait = event.wait
    after = wait.total_seconds() if isinstance(wait, timedelta) else wait.timestamp() - now
    if after > _MAX_WAIT.total_seconds():
        raise InvalidWrite(
            f"{event.type} is to be published in {after / 86_400:.0f} days: give a time within "
            f"{_MAX_WAIT.days} days, and publish another one then"
        )
    # Up: EventBridge Scheduler takes whole seconds, and no event may come early.
    return ceil(now + after) if after > 0 else floor(now + after)


def lateness(event: CloudEvent, now: float) -> float | None:
    """Return for how many seconds a due event is overdue; None for all other events."""
    due = event.extensions.get(DUE_EXTENSION)
    if due is None or not event.source.startswith(SOURCE_PREFIX):
        return None
    # An event whose time had passed when it was committed is due since its commit.
    try:
        times = [datetime.fromisoformat(str(each)).timestamp() for each in (event.time, due)]
    except (ValueError, OverflowError):
        return None
    return max(0.0, now - max(times))


class ClaimPlace(Struct, frozen=True):
    """The place of a consumer's objects: the bucket, its identity, and the largest object."""

    bucket: str
    consumer: str
    max_bytes: int

    def fitting(self, each: Draft, drafts: Sequence[Draft], pk: str) -> Draft:
        """Return a draft, with a claim in place of data that is too large for topic or record.

        The record has the partition key `pk`, and `drafts` before this one.

        Raises:
            InvalidWrite: no consumer could read the data.
            TooLarge: it is over the largest object.
        """
        try:
            text = json.dumps(each.data, separators=(",", ":"))
            used = sum(one.inline_bytes for one in drafts)
            if len(text) <= _INLINE_BYTES and used + len(text) <= _OUTBOX_BYTES:
                return msgspec.structs.replace(each, inline_bytes=len(text))
            parse(text, max_bytes=self.max_bytes)  # as in `body_of`
        except TooLarge as error:
            raise TooLarge(f"{each.type} is too large for the claim check: {error}") from None
        except (OnceError, TypeError, ValueError, RecursionError) as error:
            raise InvalidWrite(
                f"{each.type} could be read by no consumer: {fault_text(error)}"
            ) from None
        if each.wait is not None:
            # The bucket deletes objects after some days, and the event may wait for a year.
            raise TooLarge(
                f"{each.type} has {len(text)} bytes of data, and is published later, so that its "
                f"data cannot be in the claim-check bucket: {_INLINE_BYTES} bytes fit into one "
                f"event, {_OUTBOX_BYTES} into all of a transaction. Publish what identifies it"
            )
        from once.events.claim_check import Claim, Reference, event_key

        content = text.encode()
        event_id = event_id_of(key_hash(pk), len(drafts))
        reference = Reference(self.bucket, event_key(self.consumer, event_id, content))
        return msgspec.structs.replace(each, data=None, claim=Claim(reference, content))


def written(
    drafts: Sequence[Draft], *, inbound: CloudEvent, pk: str, consumer: str, now: float
) -> str:
    """Return the text of the outbox: the drafts in their order, with the time of the commit.

    The time is in seconds since the epoch; `inbound` is the event that the handler ran for.

    Raises:
        InvalidWrite: consumers could not read an event, or it is due in more than a year.
        TooLarge: an event is over SNS's limit, or a due event over that of EventBridge Scheduler.
    """
    root = key_hash(pk)
    time = _time_text(now)
    bodies = []
    for position, event in enumerate(drafts):
        event_id, due = event_id_of(root, position), due_time(event, now)
        payload = {"data": event.data}
        if event.claim is not None:
            payload = {DATAREF: event.claim.reference.uri}
            if event.group is not None:
                # The relay finds the group in the data, which it does not read from S3.
                payload[GROUP_EXTENSION] = event.group
        envelope = {
            "specversion": "1.0",
            "id": event_id,
            "source": SOURCE_PREFIX + consumer,
            "type": event.type,
            **({} if event.subject is None else {"subject": event.subject}),
            "time": time if due is None else _time_text(due),
            "datacontenttype": "application/json",
            **event.extensions,
            **({} if due is None else {DUE_EXTENSION: time}),
            CAUSE_EXTENSION: pk,
            **trace_context(inbound.extensions, event_id=event_id, root=root),
            **payload,
        }
        body = body_of(envelope)
        bodies.append(body if due is None else _schedulable(event.type, body))
    return f"[{','.join(bodies)}]"


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _schedulable(event_type: str, body: str) -> str:
    """Return the JSON of a due event in a form that EventBridge Scheduler sends unchanged.

    Raises:
        TooLarge: a schedule cannot hold it.
    """
    # Scheduler replaces texts such as <aws.scheduler.execution-id> in what a schedule sends.
    body = body.replace("<", "\\u003c")
    # A schedule holds JSON in JSON, where each quotation mark and backslash has two characters.
    if (size := len(json.dumps([body, event_type]))) > _SCHEDULE_BYTES:
        raise TooLarge(
            f"{event_type} takes {size} bytes in a schedule, which can have {_SCHEDULE_BYTES}: "
            "publish what identifies the data, and let the consumer read the rest"
        )
    return body


def trace_context(inbound: Mapping[str, Any], *, event_id: str, root: str) -> dict[str, str]:
    """Return the trace context (W3C) of an event that an inbound event caused.

    The trace id is the one in the extension attributes of the inbound event. Without one it derives
    from `root` and is not random, so that a replay has the same one. The span id derives from the
    new event's id. A `tracestate` over the limits of W3C, or with other characters than printable
    ASCII, is left out.
    """
    parent, state = inbound.get("traceparent"), inbound.get("tracestate")
    found = _TRACEPARENT.fullmatch(parent) if isinstance(parent, str) else None
    trace, flags = sha256(root.encode()).hexdigest()[:32], "00"
    if found is not None:
        trace, flags = found["trace"], found["flags"]
    span = sha256(event_id.encode()).hexdigest()[:16]
    context = {"traceparent": f"00-{trace}-{span}-{flags}"}
    if found is not None and isinstance(state, str) and state:
        fits = len(state) <= _MAX_STATE_CHARACTERS and state.count(",") < _MAX_STATE_MEMBERS
        if fits and state.isascii() and state.isprintable():
            context["tracestate"] = state
    return context


def body_of(envelope: Mapping[str, Any]) -> str:
    """Return the JSON of an event that every consumer can read, and that a topic takes.

    Raises:
        InvalidWrite: consumers could not read it.
        TooLarge: it is over SNS's limit.
    """
    # Consumers parse strictly. Refused before the commit, an event is not refused by each of them.
    try:
        body = _simple_text(envelope)
        if body is not None:
            event_of(envelope)
        else:
            body = json.dumps(envelope, separators=(",", ":"))
            read_event(body, max_bytes=_MAX_BYTES)
    except TooLarge as error:
        raise TooLarge(f"{envelope['type']} is too large for the topic: {error}") from None
    except (OnceError, TypeError, ValueError, RecursionError) as error:
        raise InvalidWrite(
            f"{envelope['type']} could be read by no consumer: {fault_text(error)}"
        ) from None
    return body


def _simple_text(envelope: Mapping[str, Any]) -> str | None:
    """Return the text of an envelope that parses strictly for sure; None if it has to be tried."""
    # The text is that of `json.dumps`, which together with parsing takes twenty times as long.
    if not has_plain_numbers([envelope]):
        return None
    text = _ENCODER.encode(envelope)
    depth = text.count(b"{") + text.count(b"[")
    # json.dumps escapes DEL and everything beyond ASCII.
    is_simple = text.isascii() and b"\x7f" not in text and depth <= MAX_DEPTH
    return text.decode() if is_simple and len(text) <= _MAX_BYTES else None


def events_in(item: Mapping[str, Any]) -> list[OutgoingEvent]:
    """Return the events in a dedup record, in DynamoDB's JSON; none if it has no outbox.

    Raises:
        Unpublishable: the outbox is not one that `written` returned.
    """
    if Record.OUTBOX not in item:
        return []
    events = []
    try:
        # Raw: each event is published byte for byte as it was committed.
        for raw in msgspec.json.decode(item[Record.OUTBOX]["S"], type=list[msgspec.Raw]):
            body = bytes(raw)
            head = msgspec.json.decode(body, type=_Head)
            due = head.due
            events.append(OutgoingEvent(head.id, head.source, head.type, body.decode(), due=due))
    except (KeyError, TypeError, OverflowError, *UNREADABLE) as error:
        raise Unpublishable(f"the record's outbox cannot be read: {error}") from None
    return events


def event_id_of(root: str, position: int) -> str:
    """Return the id of an outbox event: the hash of its record's key, and its position there."""
    return f"{root}.{position}"


def check_origin(
    event: OutgoingEvent, position: int | None, pk: str, publishes: Mapping[str, Sequence[str]]
) -> None:
    """Refuse an event that its record's consumer cannot have committed.

    `position` is its place in the outbox; None if it may have any, as in a sequence item.
    `publishes` has the event types that each consumer may publish.

    Raises:
        Unpublishable: the type, source or id does not fit the record's consumer.
    """
    consumer = consumer_of(pk)
    if event.type not in publishes.get(consumer, ()):
        raise Unpublishable(
            f"{consumer} may not publish {event.type}: add the type to publishes= of its "
            "declaration in the CDK app and deploy, or find out who wrote the record"
        )
    source = SOURCE_PREFIX + consumer
    if event.source != source:
        raise Unpublishable(
            f"its source is {event.source!r} and not {source!r}, that of the record's "
            "consumer: find out who wrote the record"
        )
    root, _, place = event.id.rpartition(".")
    is_place = place.isascii() and place.isdigit() if position is None else place == str(position)
    # Consumers deduplicate by the id. With the id of another record's event, this one would make
    # that one look like a duplicate.
    if root != key_hash(pk) or not is_place:
        raise Unpublishable(
            "its id is not derived from the key of its record: find out who wrote the record"
        )
