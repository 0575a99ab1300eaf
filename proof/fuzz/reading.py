"""Reading: any bytes are an event with what was sent, or give a documented error.

Covers `once.events.strict_json` and `once.events.cloud_event`, which are compared with the
reference implementation; `once.intake`, with its adapters of envelopes; and the originals of dead
dead letters, which a consumer never decompresses and the operator's tools do, up to a limit.
"""

import json
import tracemalloc
from base64 import b64encode
from random import Random
from typing import Any
from urllib.parse import quote_plus, unquote_plus

import msgspec
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

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
    TooLarge,
    UnknownType,
    Unparseable,
    UntrustedSource,
)
from once.event_sources import S3_TYPES, Source
from once.events.claim_check import InvalidClaim
from once.events.cloud_event import CloudEvent, read_event
from once.events.strict_json import parse
from once.failures.quarantine import carried, size_of
from once.intake.envelopes import adapter_of
from once.intake.original_message import MOVED, OriginalMessage
from once.intake.reader import DecodedEvent, Delivery, RecordReader
from once.names import EVENT_TYPE_ATTRIBUTE, DeadLetterAttribute, Limits
from once.ops.dead_letters.dead_letter import MAX_DECOMPRESSED_BYTES, decompressed
from once.outbox.unrouted import SnsEnvelope
from once.runtime.deadline import Deadline
from once.settings import Settings
from once.testing import FakeContext
from proof.fuzz import messages, reference, texts
from proof.fuzz.reference import meaning
from proof.fuzz.search import expect
from proof.fuzz.texts import hostile, one_in

MAX_BYTES = 256 * 1024
PARSE_ERRORS = (Unparseable, TooLarge)
EVENT_ERRORS = (*PARSE_ERRORS, NoKey, InvalidEvent)
ENVELOPE_ERRORS = (*EVENT_ERRORS, UntrustedSource, NoEvent)
SWEEP_ERRORS = (Unparseable,)
ERRORS = (*EVENT_ERRORS, UnknownType, UntrustedSource, InvalidData, InvalidClaim)
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
_ADAPTERS = {name: adapter_of(source) for name, source in SOURCES.items()}
_KEY_BYTES = 1024
_LENGTHS = (511, 512, 513, 1024, 1025, 3072, 3073, 100_000)
"""Of object keys and their versions: around the limits of S3 in bytes, and far beyond."""
_MAX_MEMORY = 8 * MAX_DECOMPRESSED_BYTES
"""Memory for one message, in bytes: a few copies of its decompressed text."""
_MEASURED_SIZE = 10_000


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


READERS = {
    name: RecordReader(settings_of(consumer), consumer.handlers, lambda: messages.NOW)
    for name, consumer in CONSUMERS.items()
}


def check_json(text: str) -> None:
    """Compare the parser with the reference implementation, and with msgspec."""
    expected = reference.read(text)
    try:
        tree = parse(text, max_bytes=MAX_BYTES)
    except TooLarge:
        expect(len(text.encode()) > MAX_BYTES, "a text within the limit is not too large")
    except Unparseable:
        expect(expected is reference.REFUSED, "strict JSON is parsed")
    else:
        expect(len(text.encode()) <= MAX_BYTES, "a text over the limit is refused")
        expect(expected is not reference.REFUSED, "a text that is not strict JSON is refused")
        expect(meaning(tree) == meaning(expected), "a parsed value equals the written value")
        expect(msgspec.json.decode(text) == tree, "two parsers agree on a text")


def check_event(body: str) -> None:
    """Compare an event, or its refusal, with what the reference implementation reads."""
    event: CloudEvent | None = None
    try:
        event = read_event(body, max_bytes=MAX_BYTES)
    except NoKey:
        pass
    except EVENT_ERRORS:
        return
    tree: Any = reference.read(body)
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


def draw_envelope(rng: Random) -> tuple[str, str]:
    """Return the name of a source and the body of a message of it, in most cases a sound one."""
    name = rng.choice(list(SOURCES))
    tree = _envelope(rng, name)
    return name, hostile(rng, tree) if one_in(rng, 2) else json.dumps(tree)


def _envelope(rng: Random, name: str) -> dict[str, Any]:
    event = messages.event(rng)
    kind, data = event["type"], event["data"]
    time = rng.choice(("2026-01-01T00:00:00Z", "<aws.scheduler.scheduled-time>"))
    match name:
        case "event_bridge":
            source = rng.choice(("shop", "aws.ec2", "other"))
            head = {"id": event["id"], "detail-type": kind, "source": source, "resources": []}
            return {**head, "account": "1", "time": time, "region": "eu-west-1", "detail": data}
        case "s3":
            test = {"Service": "Amazon S3", "Event": "s3:TestEvent"}
            return test if one_in(rng, 10) else _stored(rng)
        case "sns" | "plain sns":
            content = event if name == "sns" else {**data, "type": kind}
            named = {"Type": "String", "Value": kind}
            listed = {"Type": "String.Array", "Value": json.dumps([kind])}
            attribute = {EVENT_TYPE_ATTRIBUTE: rng.choice((named, named, listed))}
            return {
                "Type": rng.choice(("Notification", "Notification", "SubscriptionConfirmation")),
                "MessageId": "m-1",
                "TopicArn": "arn",
                "Message": hostile(rng, content) if one_in(rng, 2) else json.dumps(content),
                "Timestamp": time,
                **rng.choice(({}, {"MessageAttributes": attribute})),
            }
        case "json":
            return {**data, "type": kind}
    return {**event, "id": time, "data": {"scheduled_at": time}}


def _stored(rng: Random) -> dict[str, Any]:
    long = rng.choice(("k", "é", "#", "%")) * rng.choice(_LENGTHS)
    key = rng.choice((texts.text(rng), "a b/c.txt", "%", "é", long))
    sent = {
        "key": rng.choice((quote_plus(key, errors="replace"), key)),
        "size": 3,
        "eTag": "e",
        "versionId": rng.choice((None, None, "v1", "v1", "v" * rng.choice(_LENGTHS))),
        "sequencer": rng.choice(("0A", "0A", "0A1F", "0A1F", None, "A" * rng.choice(_LENGTHS))),
    }
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-west-1",
        "eventTime": "2026-01-01T00:00:00.000Z",
        "eventName": f"{rng.choice(S3_TYPES)}:Put",
        "s3": {"bucket": {"name": "b", "arn": "arn:aws:s3:::b"}, "object": sent},
    }
    return {"Records": [record] * rng.choice((1, 1, 1, 2))}


def check_envelope(case: tuple[str, str]) -> None:
    """Read a body as a source's: the event holds what was sent, however it is spelled."""
    name, body = case
    tree = reference.read(body)
    if name.endswith("sns"):
        _check_sweep(body)
    try:
        event = _ADAPTERS[name](body, max_bytes=MAX_BYTES)
    except OnceError as error:
        expect(isinstance(error, ENVELOPE_ERRORS), "a refusal is a documented error")
        return
    expect(isinstance(tree, dict), "an envelope that is not strict JSON is refused")
    expect(event.type.strip() != "", "an event has a type")
    if name == "s3":
        _check_object(event, tree)
    else:
        expect(meaning(event.data) == meaning(_sent(name, event, tree)), "the data is as sent")
    again = _ADAPTERS[name](json.dumps(tree, default=_number), max_bytes=2 * MAX_BYTES)
    same = (again.type, meaning(again.data)) == (event.type, meaning(event.data))
    expect(same, "one envelope is one event however it is spelled")


def _check_sweep(body: str) -> None:
    """Read a body as the sweep of unrouted events does."""
    try:
        envelope = SnsEnvelope.read(body)
    except SWEEP_ERRORS:
        return
    tree = json.loads(body, parse_int=str)  # Python refuses to convert a very long number
    expect(envelope.message == tree["Message"], "the sweep keeps what was published")
    sent = tree.get("MessageAttributes", {}).get(EVENT_TYPE_ATTRIBUTE, {"Type": None})
    has_type = sent["Type"] in ("String", "String.Array")
    expect((envelope.types is not None) == has_type, "a type is an attribute")


def _sent(name: str, event: CloudEvent, tree: Any) -> Any:
    """Return the data in an envelope, after a look at the members that say what it is."""
    match name:
        case "event_bridge":
            sent = tree["source"], tree["detail-type"]
            expect((event.source, event.type) == sent, "source and type are those of the envelope")
            expect(event.source in ("shop", "aws.ec2"), "a rule selects its sources")
            return tree["detail"]
        case "sns" | "plain sns":
            expect(tree["Type"] == "Notification", "a confirmation is no event")
            inner = reference.read(tree["Message"])
            return inner if name == "plain sns" else inner.get("data")
        case "schedule":
            expect("<" not in event.id, "a scheduled event has the id of its time")
            return tree.get("data")
    return tree


def _check_object(event: CloudEvent, tree: Any) -> None:
    """Compare the event of an object in S3 with its notification."""
    [record] = tree["Records"]
    sent = record["s3"]["object"]
    key = unquote_plus(sent["key"])
    expect(event.subject == event.data["key"] == key != "", "the subject is the key of the object")
    expect(len(event.data["key"].encode()) <= _KEY_BYTES, "a key is no longer than S3 allows")
    expect(sent["sequencer"] in event.id, "an event is identified by its sequencer")
    most = len(sent["sequencer"] + (sent.get("versionId") or "")) + _KEY_BYTES + 3
    expect(len(event.id) <= most, "an id is no longer than what identifies the object")
    other = {"Records": [record | {"eventTime": "later", "responseElements": {}}]}
    again = _ADAPTERS["s3"](json.dumps(other, default=_number), max_bytes=2**20)
    expect((again.id, again.data) == (event.id, event.data), "a retry of S3 is the same event")


def _number(value: Any) -> Any:
    return int(value) if value == int(value) and abs(value) < 2**53 else float(value)


def draw_message(rng: Random) -> tuple[str, messages.Message]:
    """Return the name of a consumer and a message."""
    return rng.choice(list(CONSUMERS)), messages.draw(rng)


def check_message(case: tuple[str, messages.Message]) -> None:
    """Read a message for a consumer: the result is a sound event, or an error of ERRORS."""
    name, message = case
    check_event(message["body"])
    delivery = delivered(READERS[name], SQSRecord(message))
    event = delivery.decoded
    if isinstance(event, DecodedEvent):
        pk = event.identity.pk
        expect(delivery.pk == pk and pk.startswith(f"{name}#"), "a key belongs to its consumer")
        expect(len(pk.encode()) <= Limits.PARTITION_KEY_BYTES, "a key fits into the table")
        expect(len(event.identity.fingerprint) == 64, "every event has a fingerprint")
        if not isinstance(event.data, InvalidData):
            expect(isinstance(event.data, event.handler.model), "a handler gets its own model")
            read = msgspec.to_builtins(event.data)
            same = meaning(read) == meaning(_known(read, event.event.data))
            expect(same, "a model holds what was sent")
    error = error_of(delivery)
    expect(error is None or isinstance(error, ERRORS), "a refusal is a documented error")
    if message["messageAttributes"]:
        check_original(message)


def delivered(reader: RecordReader, record: SQSRecord) -> Delivery:
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


def check_original(record: messages.Message) -> None:
    """Decompress the original of a dead letter within limits, and read back a dead letter."""
    packed = (
        record["messageAttributes"]
        .get(DeadLetterAttribute.ORIGINAL_GZIP, {})
        .get("binaryValue", "")
    )
    if len(packed) >= _MEASURED_SIZE:  # measuring takes longer than everything else
        tracemalloc.start()
    try:
        original = _decompressed(record)
        memory = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    expect(memory <= _MAX_MEMORY, "a compression bomb is not decompressed")
    expect(len(original.body) <= MAX_DECOMPRESSED_BYTES, "a decompressed body has a limit")
    sent = OriginalMessage.of(record)
    expect(sent.body == record["body"], "a body is read as it was sent")
    reserved = any(name.startswith("once-") for name in sent.attributes)
    expect(not reserved, "a producer cannot use a reserved name")
    body, attributes = carried(sent, {})
    expect(size_of(body, attributes) <= Limits.MESSAGE_BYTES, "a dead letter is never too large")
    expect(body in (record["body"], MOVED), "a dead letter has the body that was sent")
    compressed = OriginalMessage(original.body, original.attributes).compressed()
    value = {"binaryValue": b64encode(compressed).decode(), "dataType": "Binary"}
    again = _decompressed(
        record | {"messageAttributes": {DeadLetterAttribute.ORIGINAL_GZIP: value}}
    )
    same = (again.body, again.attributes) == (original.body, original.attributes)
    expect(same, "an original is decompressed unchanged")


def _decompressed(record: dict[str, Any]) -> OriginalMessage:
    return decompressed(OriginalMessage.of(record | {"body": MOVED}))
