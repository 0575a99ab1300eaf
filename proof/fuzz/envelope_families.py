"""Families of messages in an envelope that are cheap to send and may be expensive to read."""

import json
from collections.abc import Callable
from typing import Any

from functions.orders.handler import consumer
from once.event_sources import S3_TYPES
from once.events.claim_check import ClaimStore
from once.events.identity import Key
from once.intake.reader import RecordReader
from once.intake.registration import Handler
from proof.fuzz import messages
from proof.fuzz.families import Make, filled, message, order
from proof.fuzz.messages import Message
from proof.fuzz.parsers.envelopes import SOURCES
from proof.fuzz.parsers.intake import settings_of

_BRIDGE = (
    '{"id":"e","source":"shop","detail-type":"order.placed","account":"1","time":"t","region":"r",'
    '"detail":{},"resources":['
)
_S3 = (
    '{"eventVersion":"2.1","eventSource":"aws:s3","awsRegion":"r","eventTime":"t",'
    '"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b","arn":"a"},"object":'
    '{"sequencer":"0A","size":1,"eTag":"e","key":"%s"}}}'
)
_SNS = '{"Type":"Notification","MessageId":"m","TopicArn":"arn","Timestamp":"t","Message":%s}'


def _notified(make: Make, growth: int = 1) -> Make:
    """Return a maker of notifications; as text in JSON, the message grows by this factor."""
    return lambda size: _SNS % json.dumps(make((size - len(_SNS)) // growth), ensure_ascii=False)


def _object(*units: str) -> Make:
    head, _, end = _S3.partition("%s")
    return filled('{"Records":[' + head, *units, end=end + "]}")


_FAMILIES: dict[str, tuple[str, Make]] = {
    "SNS: an order": ("sns", _notified(lambda size: order(size * 4 // 5))),
    "SNS: escapes of escapes": ("sns", _notified(filled('"', '\\"', end='"'), 2)),
    "SNS: text": ("plain sns", _notified(filled("", "x"))),
    "SNS: nested": ("plain sns", _notified(filled("", "["))),
    "SNS: marks": ("plain sns", _notified(filled('{"type":"order.placed","a":"', "\u0300"))),
    "EventBridge: resources": ("event_bridge", filled(_BRIDGE, '"a",', end='"a"]}')),
    "EventBridge: wrong resources": ("event_bridge", filled(_BRIDGE, "1,", end="1]}")),
    "S3: a long key": ("s3", _object("a")),
    "S3: a key of escapes": ("s3", _object("%C3%A9")),
    "S3: marks in a key": ("s3", _object("%CC%80", "%CC%96")),
    "S3: many records": ("s3", filled('{"Records":[', (_S3 % "k") + ",", end=_S3 % "k" + "]}")),
    "JSON: a field of its own": ("json", filled('{"type":"', "x", end='"}')),
    "schedule: a long id": ("schedule", filled('{"specversion":"1.0","source":"s","id":"', "1")),
}
ENVELOPES: dict[str, Callable[[int], Message]] = {
    name: lambda size, make=make: message(make(size))  # type: ignore[misc]
    for name, (_, make) in _FAMILIES.items()
}
"""Each family by name: from a size in bytes to a message of about this size."""


def reader_of(family: str, claims: ClaimStore | None = None, **more: Any) -> RecordReader:
    """Return a reader of the envelope of a family, with the handlers of a consumer of the shop."""
    handlers: dict[str, Any] = dict(consumer.handlers)
    [placed] = [one for one in handlers.values() if one.event_type == "order.placed"]
    for event_type in S3_TYPES:
        handlers[event_type] = Handler(
            event_type, dict, placed.function, Key.content(), frozenset()
        )
    settings = settings_of(consumer, event_source=SOURCES[_FAMILIES[family][0]], **more)
    return RecordReader(settings, handlers, lambda: messages.NOW, claims)
