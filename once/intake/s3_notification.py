"""S3's notifications: one event for each object that was created or removed.

An event is identified by bucket, object key, version and sequencer: S3 may send a notification
twice, with the same sequencer.
"""

import re
from hashlib import sha256
from typing import Any
from urllib.parse import unquote_plus

import msgspec

from once.deadline import Deadline
from once.errors import InvalidEvent, NoKey, TooLarge
from once.events.cloud_event import CloudEvent
from once.events.strict_json import parse
from once.intake.adapter import NoEvent

_KEY_BYTES = 1024
"""The longest object key, in bytes of UTF-8."""
_ESCAPED_BYTE = len("%20")
_HEX = re.compile("[0-9A-Fa-f]+")
_VERSION = re.compile("[^/]*")


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


class _Notification(msgspec.Struct):
    records: list[_Record] = msgspec.field(name="Records")


def read_notification(body: str, *, max_bytes: int, deadline: Deadline | None = None) -> CloudEvent:
    """Return the event in a body; see `once.intake.adapter.Adapter`."""
    record = _only_record(parse(body, max_bytes=max_bytes, deadline=deadline))
    bucket, sent = record.s3.bucket, record.s3.object
    key = _decoded(sent.key)
    sequencer = _sequencer(record)
    return CloudEvent(
        id=_identity(key, sent.version_id or "", sequencer),
        source=bucket.arn,
        type=record.event_name.partition(":")[0],
        subject=key,
        time=record.event_time,
        data=msgspec.to_builtins(
            S3Object(
                bucket=bucket.name,
                key=key,
                event=record.event_name,
                sequencer=sequencer,
                version_id=sent.version_id,
                size=sent.size,
                etag=sent.e_tag,
            )
        ),
        extensions={"region": record.aws_region},
    )


def _only_record(tree: Any) -> _Record:
    if isinstance(tree, dict) and tree.get("Event") == "s3:TestEvent" and "Records" not in tree:
        raise NoEvent("S3 has tested that it may send to the queue")
    try:
        records = msgspec.convert(tree, _Notification).records
    except msgspec.ValidationError as error:
        raise InvalidEvent(f"not a notification of S3: {error}") from None
    if len(records) != 1:
        raise InvalidEvent(
            f"a notification of {len(records)} records, and S3 sends one: send each as a message "
            "of its own with `once dlq redrive --edit`"
        )
    [record] = records
    if record.event_source != "aws:s3" or not record.event_version.startswith("2."):
        raise InvalidEvent("not a notification of S3 of version 2: eventSource or eventVersion")
    if not record.event_name.partition(":")[0].strip():
        raise InvalidEvent("a notification of S3 without an eventName")
    return record


def _decoded(key: str) -> str:
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


def _sequencer(record: _Record) -> str:
    found = record.s3.object.sequencer or ""
    if not _HEX.fullmatch(found) or not _VERSION.fullmatch(record.s3.object.version_id or ""):
        raise NoKey(
            f"{record.event_name} has no sequencer, or its version has a slash: take events "
            "without one from EventBridge, with Source.event_bridge('aws.s3')"
        )
    return found


def _identity(key: str, version: str, sequencer: str) -> str:
    """Return a text that differs for two events; of ordinary keys it is readable."""
    if key.isascii() and key.isprintable() and not {"#", "%"} & {*key}:
        return f"{sequencer}/{version}/{key}"
    # Two keys may differ in their Unicode form only, which a dedup key does not keep.
    return f"~{sequencer}/{version}/{sha256(key.encode()).hexdigest()}"
