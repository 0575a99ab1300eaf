"""Envelopes: take the event out of a message's body, in the form of the service that sent it.

EventBridge and SNS keep the id of an event when they deliver it again; a producer that sends it
again gets another id. Plain JSON has no identity of its own.
"""

import re
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote_plus

import msgspec

from once.errors import InvalidEvent, NoEvent, NoKey, TooLarge, UntrustedSource
from once.event_sources import (
    EventBridgeSource,
    JsonSource,
    S3Source,
    ScheduleSource,
    SnsSource,
    Source,
)
from once.events.cloud_event import CloudEvent, event_of, fault_text, read_event
from once.events.strict_json import BYTE_ORDER_MARK, parse
from once.runtime.deadline import Deadline


class Adapter(Protocol):
    """Reads the body of a message."""

    def __call__(
        self, body: str, *, max_bytes: int, deadline: Deadline | None = None
    ) -> CloudEvent:
        """Return the event in a body of at most `max_bytes` bytes, read until the deadline.

        Raises:
            Unparseable, TooLarge, NoKey, InvalidEvent, OutOfTime: see
                `once.events.cloud_event.read_event`.
            UntrustedSource: the event is of another sender than the declared ones.
            NoEvent: the message holds no event.
        """


def adapter_of(source: Source | None) -> Adapter:
    """Return the adapter of a source; without one, that of CloudEvents without an envelope."""
    if source is None:
        return read_event
    event_in = _READERS[type(source)]

    def adapter(body: str, *, max_bytes: int, deadline: Deadline | None = None) -> CloudEvent:
        return event_in(source, body, partial(parse, max_bytes=max_bytes, deadline=deadline))

    return adapter


_Parse = Callable[[str], Any]
"""Parses a text strictly, within the limits of its message."""
_Form = TypeVar("_Form")


def _converted(tree: Any, form: type[_Form], name: str) -> _Form:
    try:
        return msgspec.convert(tree, form)
    except msgspec.ValidationError as error:
        raise InvalidEvent(f"not {name}: {fault_text(error)}") from None


class _Rule(msgspec.Struct, rename={"detail_type": "detail-type"}):
    """The envelope of EventBridge."""

    id: str
    source: str
    detail_type: str
    time: str
    account: str
    region: str
    resources: list[str]
    detail: dict[str, Any]


def _from_event_bridge(source: EventBridgeSource, body: str, parsed: _Parse) -> CloudEvent:
    envelope = _converted(parsed(body), _Rule, "an event of EventBridge")
    if not envelope.id.strip():
        raise NoKey("the event has no id: EventBridge sets one on every event")
    if not envelope.detail_type.strip():
        raise InvalidEvent("detail-type is blank")
    if envelope.source not in source.sources:
        raise UntrustedSource(
            f"the rule selects events of {' or '.join(source.sources)} only: add the "
            "source to Source.event_bridge(…) of the consumer's declaration in the CDK app"
        )
    return CloudEvent(
        id=envelope.id,
        source=envelope.source,
        type=envelope.detail_type,
        time=envelope.time,
        data=envelope.detail,
        extensions={
            "account": envelope.account,
            "region": envelope.region,
            "resources": envelope.resources,
        },
    )


class _Notification(msgspec.Struct, rename="pascal"):
    """The envelope of SNS, with the published text in `Message`."""

    type: str
    message_id: str
    topic_arn: str
    message: str
    timestamp: str


def _notification(tree: Any) -> _Notification:
    found = _converted(tree, _Notification, "a notification of SNS")
    if found.type != "Notification":
        raise InvalidEvent(
            f"a message of SNS about a subscription ({found.type}), and no event: confirm it by "
            "the SubscribeURL in its body, or remove the subscription"
        )
    return found


def _from_sns(source: SnsSource, body: str, parsed: _Parse) -> CloudEvent:
    found = _notification(parsed(body))
    if not found.message_id.strip():
        raise NoKey("the notification has no MessageId: SNS sets one on every message")
    if not source.is_plain:
        return event_of(parsed(found.message))
    event_type, data = _typed_object(source, parsed(found.message))
    return CloudEvent(
        id=found.message_id,
        source=found.topic_arn,
        type=event_type,
        time=found.timestamp,
        data=data,
    )


def _from_json(source: JsonSource, body: str, parsed: _Parse) -> CloudEvent:
    event_type, data = _typed_object(source, parsed(body))
    plain = body.removeprefix(BYTE_ORDER_MARK)
    digest = sha256(plain.encode()).hexdigest()  # for `once trace`; never a key
    return CloudEvent(id=digest, source="json", type=event_type, data=data)


def _typed_object(source: JsonSource | SnsSource, tree: Any) -> tuple[str, dict[str, Any]]:
    """Return a JSON object and its event type, which is declared, or in a declared field."""
    if not isinstance(tree, dict):
        raise InvalidEvent(f"the body is a JSON {type(tree).__name__}, and an event is an object")
    found = source.type if source.type_field is None else tree.get(source.type_field)
    if not isinstance(found, str) or not found.strip():
        raise InvalidEvent(
            f"the field {source.type_field!r} holds the event type, and must be a non-blank string"
        )
    return found, tree


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z", re.ASCII)


def _from_schedule(_: ScheduleSource, body: str, parsed: _Parse) -> CloudEvent:
    event = event_of(parsed(body))
    # EventBridge Scheduler puts the time into the message. Where it did not, each message would
    # have the same id, and all but the first would count as duplicates.
    if not _TIME.fullmatch(event.id):
        raise NoKey(
            "the id of a scheduled event is its time, such as 2026-01-31T03:00:00Z: set the "
            "schedule's input to that of the CDK construct, or edit the id before a redrive"
        )
    return event


_KEY_BYTES = 1024
"""The longest object key in S3, in bytes of UTF-8."""
_ESCAPED_BYTE = len("%20")
_HEX = re.compile("[0-9A-Fa-f]+")


class S3Object(msgspec.Struct, frozen=True):
    """The data of a notification: a model for handlers.

    Attributes:
        bucket: the name of the bucket.
        key: the object's key, decoded.
        event: the event's name, such as `ObjectCreated:Put`.
        sequencer: orders the events of one key: the longer text is padded, then they are compared.
        version_id: the object's version; None in a bucket without versions.
        size: its size in bytes; None for a removed object.
        etag: its entity tag; None for a removed object.
    """

    bucket: str
    key: str
    event: str
    sequencer: str
    version_id: str | None = None
    size: int | None = None
    etag: str | None = None


class _Bucket(msgspec.Struct):
    name: str
    arn: str


class _Object(msgspec.Struct, rename="camel"):
    key: str
    size: int | None = None
    e_tag: str | None = None
    version_id: str | None = None
    sequencer: str | None = None


class _Content(msgspec.Struct):
    bucket: _Bucket
    object: _Object


class _Record(msgspec.Struct, rename="camel"):
    event_version: str
    event_source: str
    event_name: str
    event_time: str
    aws_region: str
    s3: _Content


class _Records(msgspec.Struct):
    """The envelope of S3, which sends one record in it, to a queue or to a topic."""

    records: list[_Record] = msgspec.field(name="Records")


def _from_s3(_: S3Source, body: str, parsed: _Parse) -> CloudEvent:
    tree = parsed(body)
    if isinstance(tree, dict) and "TopicArn" in tree:  # the bucket notifies a topic
        tree = parsed(_notification(tree).message)
    if isinstance(tree, dict) and tree.get("Event") == "s3:TestEvent" and "Records" not in tree:
        raise NoEvent("S3 has tested that it may send to the queue")
    records = _converted(tree, _Records, "a notification of S3").records
    if len(records) != 1:
        raise InvalidEvent(
            f"a notification of {len(records)} records, and S3 sends one: send each as a message "
            "of its own with `once dlq redrive --edit`"
        )
    [record] = records
    if record.event_source != "aws:s3" or not record.event_version.startswith("2."):
        raise InvalidEvent("not a notification of S3 of version 2: eventSource or eventVersion")
    event_type = record.event_name.partition(":")[0]
    if not event_type.strip():
        raise InvalidEvent("a notification of S3 without an eventName")
    bucket, sent = record.s3.bucket, record.s3.object
    key = _decoded_key(sent.key)
    version, sequencer = sent.version_id or "", sent.sequencer or ""
    if not _HEX.fullmatch(sequencer) or "/" in version:
        raise NoKey(
            f"{record.event_name} has no sequencer, or its version has a slash: take events "
            "without one from EventBridge, with Source.event_bridge('aws.s3')"
        )
    data = S3Object(
        bucket=bucket.name,
        key=key,
        event=record.event_name,
        sequencer=sequencer,
        version_id=sent.version_id,
        size=sent.size,
        etag=sent.e_tag,
    )
    return CloudEvent(
        id=_object_identity(key, version, sequencer),
        source=bucket.arn,
        type=event_type,
        subject=key,
        time=record.event_time,
        data=msgspec.to_builtins(data),
        extensions={"region": record.aws_region},
    )


def _decoded_key(key: str) -> str:
    too_large = TooLarge(f"the object's key is longer than {_KEY_BYTES} bytes, the limit of S3")
    if len(key) > _KEY_BYTES * _ESCAPED_BYTE:  # decoding takes 70 times the memory of its text
        raise too_large
    try:
        decoded = unquote_plus(key, errors="strict")
    except UnicodeDecodeError:
        raise InvalidEvent("the object's key is not UTF-8 in URL encoding") from None
    if len(decoded.encode()) > _KEY_BYTES:
        raise too_large
    if not decoded:
        raise NoKey("the object's key is empty")
    return decoded


def _object_identity(key: str, version: str, sequencer: str) -> str:
    """Return a text that differs for two events; of ordinary keys it is readable.

    S3 may send a notification twice, with the same sequencer.
    """
    if key.isascii() and key.isprintable() and not {"#", "%"} & {*key}:
        return f"{sequencer}/{version}/{key}"
    # Two keys may differ in their Unicode form only, which a dedup key does not keep.
    return f"~{sequencer}/{version}/{sha256(key.encode()).hexdigest()}"


_READERS: dict[type[Source], Callable[[Any, str, _Parse], CloudEvent]] = {
    EventBridgeSource: _from_event_bridge,
    S3Source: _from_s3,
    SnsSource: _from_sns,
    JsonSource: _from_json,
    ScheduleSource: _from_schedule,
}
