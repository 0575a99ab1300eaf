"""Reading: any bytes are an event with what was sent, or give a documented error.

Covers `once.events.cloud_event`, which is compared with the reference implementation, and
`once.intake` with its adapters of envelopes.
"""

from random import Random
from typing import Any

import msgspec
from aws_lambda_powertools import Logger

from functions.inventory.handler import consumer as inventory
from functions.notifications.handler import consumer as notifications
from functions.orders.handler import consumer as orders
from functions.payments.handler import consumer as payments
from once.consumer import Consumer
from once.errors import (
    InvalidData,
    InvalidEvent,
    NoEvent,
    NoKey,
    OnceError,
    UnknownType,
    UntrustedSource,
)
from once.event_sources import S3_TYPES, Source
from once.events.claim_check import ClaimStore, InvalidClaim
from once.events.cloud_event import CloudEvent, read_event
from once.events.identity import Key
from once.intake.reader import DecodedEvent, Delivery, RecordReader
from once.intake.registration import Handler
from once.names import Limits
from once.runtime.deadline import Deadline
from once.settings import Settings
from once.testing import FakeContext
from proof.fuzz import messages, values
from proof.fuzz.search import expect
from proof.fuzz.values import MAX_BYTES, PARSE_ERRORS, meaning

EVENT_ERRORS = (*PARSE_ERRORS, NoKey, InvalidEvent)
ERRORS = (*EVENT_ERRORS, UnknownType, UntrustedSource, NoEvent, InvalidData, InvalidClaim)
CONSUMERS = {consumer.name: consumer for consumer in (orders, inventory, payments, notifications)}
CONTEXT = FakeContext(30_000)
LOGGER = Logger(service="fuzz", level="CRITICAL")
SOURCES = {
    "event_bridge": Source.event_bridge("shop", "aws.ec2"),
    "s3": Source.s3("bucket"),
    "sns": Source.sns("arn"),
    "plain sns": Source.sns("arn", type_field="type"),
    "json": Source.json(type_field="type"),
    "schedule": Source.schedule("rate(1 day)"),
}

_DEADLINE = Deadline(CONTEXT.get_remaining_time_in_millis, 5000)
_FIELDS = ("id", "source", "type", "subject", "time", "data")
_NO_EXTENSIONS = {*_FIELDS, "specversion", "datacontenttype", "dataschema"}


def settings_of(consumer: Consumer, **more: Any) -> Settings:
    """Return settings of a consumer, without tables unless `more` names them."""
    return Settings(
        consumer=consumer.name,
        event_types=tuple(consumer.handlers),
        queue_url="queue",
        dead_letter_url="dead-letters",
        dedup_table="dedup",
        dedup_window_seconds=45 * 24 * 60 * 60,
        **{"tables": {}} | more,
    )


def reader_of(source: str = "", claims: ClaimStore | None = None, **more: Any) -> RecordReader:
    """Return a reader with the handlers of a consumer of the shop.

    That of a source also has a handler of each type of S3, which takes any data.
    """
    handlers: dict[str, Any] = dict(orders.handlers)
    if source:
        placed = next(iter(handlers.values())).function
        for name in S3_TYPES:
            handlers[name] = Handler(name, dict, placed, Key.content(), frozenset())
        more["event_source"] = SOURCES[source]
    return RecordReader(settings_of(orders, **more), handlers, lambda: messages.NOW, claims)


READERS = {
    **{
        name: RecordReader(settings_of(consumer), consumer.handlers, lambda: messages.NOW)
        for name, consumer in CONSUMERS.items()
    },
    **{name: reader_of(name) for name in SOURCES},
}
"""The readers of all consumers, and of the sources."""


def check_event(body: str) -> None:
    """Compare an event, or its refusal, with what the reference implementation reads."""
    event: CloudEvent | None = None
    try:
        event = read_event(body, max_bytes=MAX_BYTES)
    except NoKey:
        pass
    except EVENT_ERRORS:
        return
    tree: Any = values.read(body)
    # A value that is no text counts as well: such an event is refused for another reason.
    ids = [tree.get(name) for name in ("id", "source")] if isinstance(tree, dict) else [None]
    has_identity = all(value is not None and str(value).strip() != "" for value in ids)
    expect(has_identity == (event is not None), "an event with id and source has a key")
    if event is None:
        return
    expect(tree["specversion"] == "1.0" and event.type.strip() != "", "an envelope is complete")
    expect("data_base64" not in tree, "binary data is refused")
    read = {name: getattr(event, name) for name in _FIELDS}
    sent = {name: tree.get(name) for name in _FIELDS}
    expect(meaning(read) == meaning(sent), "an event equals what was sent")
    extensions = {name: member for name, member in tree.items() if name not in _NO_EXTENSIONS}
    same = meaning(dict(event.extensions)) == meaning(extensions)
    expect(same, "every other attribute is an extension")


def draw_message(rng: Random) -> tuple[str, messages.Message]:
    """Return the name of a reader and a message."""
    return rng.choice(list(READERS)), messages.draw(rng)


def check_message(case: tuple[str, messages.Message]) -> None:
    """Read a message: the result is a sound event, or an error of ERRORS."""
    name, message = case
    check_event(message["body"])
    delivery = delivered(READERS[name], message)
    event = delivery.decoded
    if isinstance(event, DecodedEvent):
        pk = event.identity.pk
        own = pk.startswith(f"{name if name in CONSUMERS else 'orders'}#")
        expect(delivery.pk == pk and own, "a key belongs to its consumer")
        expect(len(pk.encode()) <= Limits.PARTITION_KEY_BYTES, "a key fits into the table")
        expect(len(event.identity.fingerprint) == 64, "every event has a fingerprint")
        if not isinstance(event.data, InvalidData):
            expect(isinstance(event.data, event.handler.model), "a handler gets its own model")
            read = msgspec.to_builtins(event.data)
            same = meaning(read) == meaning(_known(read, event.event.data))
            expect(same, "a model holds what was sent")
    error = error_of(delivery)
    expect(error is None or isinstance(error, ERRORS), "a refusal is a documented error")


def delivered(reader: RecordReader, record: Any) -> Delivery:
    """Receive and read a message alone."""
    [delivery] = reader.receive([record])
    reader.read(delivery, _DEADLINE)
    return delivery


def error_of(delivery: Delivery) -> OnceError | None:
    """Return why a message was refused, None if its handler would run."""
    decoded: Any = delivery.decoded
    found = decoded.data if isinstance(decoded, DecodedEvent) else decoded
    return found if isinstance(found, OnceError) else None


def _known(read: Any, sent: Any) -> Any:
    """Return the members of the sent data that the model knows."""
    if isinstance(read, dict):
        return {name: _known(member, sent[name]) for name, member in read.items()}
    if isinstance(read, list | tuple):
        return [_known(*members) for members in zip(read, sent, strict=True)]
    return sent
