"""Intake: `once.intake.reader`, `once.intake.original_message`, and `decompression` of `once.ops`.

A consumer never decompresses an original; the operator's tools do, up to a limit.
"""

import tracemalloc
from base64 import b64encode
from random import Random
from typing import Any

import msgspec
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from functions.inventory.handler import consumer as inventory
from functions.notifications.handler import consumer as notifications
from functions.orders.handler import consumer as orders
from functions.payments.handler import consumer as payments
from once.consumer import Consumer
from once.errors import InvalidData, OnceError, UnknownType, UntrustedSource
from once.events.claim_check import InvalidClaim
from once.failures.quarantine import carried, size_of
from once.intake.original_message import MOVED, OriginalMessage
from once.intake.reader import DecodedEvent, Delivery, RecordReader
from once.names import DeadLetter, Limits
from once.ops.dead_letters.letter import MAX_DECOMPRESSED_BYTES, decompressed
from once.runtime.deadline import Deadline
from once.settings import Settings
from once.testing import FakeContext
from proof.fuzz import messages
from proof.fuzz.aws import settings
from proof.fuzz.parsers.bodies import EVENT_ERRORS
from proof.fuzz.reference import meaning
from proof.fuzz.target import expect

CONTEXT = FakeContext(30_000)
DEADLINE = Deadline(CONTEXT.get_remaining_time_in_millis, 5000)
ERRORS = (*EVENT_ERRORS, UnknownType, UntrustedSource, InvalidData, InvalidClaim)
CONSUMERS = {consumer.name: consumer for consumer in (orders, inventory, payments, notifications)}
_MAX_MEMORY = 8 * MAX_DECOMPRESSED_BYTES
"""Memory for one message, in bytes: a few copies of its decompressed text."""
_MEASURED_SIZE = 10_000


def settings_of(consumer: Consumer, **more: Any) -> Settings:
    """Return settings for a consumer, without tables unless `more` names them."""
    return settings(consumer.name, event_types=tuple(consumer.handlers), **more)


READERS = {
    name: RecordReader(settings_of(consumer), consumer.handlers, lambda: messages.NOW)
    for name, consumer in CONSUMERS.items()
}


def check_message(case: tuple[str, messages.Message]) -> None:
    """Read a message for a consumer: the result is a sound event, or an error of ERRORS."""
    name, message = case
    delivery = delivered(READERS[name], SQSRecord(messages.record(message)))
    if isinstance(delivery.decoded, DecodedEvent):
        _check_decoded(name, delivery, delivery.decoded)
    error = error_of(delivery)
    expect(error is None or isinstance(error, ERRORS), "a refusal is a documented error")


def delivered(reader: RecordReader, record: SQSRecord) -> Delivery:
    """Receive and read a message alone."""
    [delivery] = reader.receive([record])
    reader.read(delivery, DEADLINE)
    return delivery


def error_of(delivery: Delivery) -> OnceError | None:
    """Return why a message was refused, None if its handler would run."""
    decoded: Any = delivery.decoded
    found = decoded.data if isinstance(decoded, DecodedEvent) else decoded
    return found if isinstance(found, OnceError) else None


def _check_decoded(name: str, delivery: Delivery, event: DecodedEvent) -> None:
    pk = event.identity.pk
    expect(delivery.pk == pk and pk.startswith(f"{name}#"), "a key belongs to its consumer")
    expect(len(pk.encode()) <= Limits.PARTITION_KEY_BYTES, "a key fits into the table")
    expect(len(event.identity.fingerprint) == 64, "every event has a fingerprint")
    if isinstance(event.data, InvalidData):
        return
    expect(isinstance(event.data, event.handler.model), "a handler gets its own model")
    read = msgspec.to_builtins(event.data)
    same = meaning(read) == meaning(_known(read, event.event.data))
    expect(same, "a model holds what was sent")


def _known(read: Any, sent: Any) -> Any:
    """Return the members of the sent data that the model knows."""
    if isinstance(read, dict):
        return {name: _known(member, sent[name]) for name, member in read.items()}
    if isinstance(read, list | tuple):
        return [_known(*members) for members in zip(read, sent, strict=True)]
    return sent


def draw_message(rng: Random) -> tuple[str, messages.Message]:
    """Return the name of a consumer and a message."""
    return rng.choice(list(CONSUMERS)), messages.message(rng)


def check_original(message: messages.Message) -> None:
    """Decompress the original of a dead letter within limits, and read back a dead letter."""
    record = messages.record(message)
    original = _decompressed_in_limits(record)
    expect(len(original.body) <= MAX_DECOMPRESSED_BYTES, "a decompressed body has a limit")
    _check_dead_letter(record)
    compressed = OriginalMessage(original.body, original.attributes).compressed()
    value = {"binaryValue": b64encode(compressed).decode(), "dataType": "Binary"}
    again = _decompressed(record | {"messageAttributes": {DeadLetter.ORIGINAL_GZIP: value}})
    same = (again.body, again.attributes) == (original.body, original.attributes)
    expect(same, "an original is decompressed unchanged")


def _decompressed(record: dict[str, Any]) -> OriginalMessage:
    return decompressed(OriginalMessage.of(SQSRecord(record | {"body": MOVED})))


def _decompressed_in_limits(record: dict[str, Any]) -> OriginalMessage:
    packed = record["messageAttributes"].get(DeadLetter.ORIGINAL_GZIP, {}).get("binaryValue", "")
    if len(packed) < _MEASURED_SIZE:
        return _decompressed(record)  # measuring takes longer than everything else
    tracemalloc.start()
    try:
        original = _decompressed(record)
        memory = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    expect(memory <= _MAX_MEMORY, "a compression bomb is not decompressed")
    return original


def _check_dead_letter(record: dict[str, Any]) -> None:
    original = OriginalMessage.of(SQSRecord(record))
    expect(original.body == record["body"], "a body is read as it was sent")
    reserved = any(name.startswith("once-") for name in original.attributes)
    expect(not reserved, "a producer cannot use a reserved name")
    body, attributes = carried(original, {})
    expect(size_of(body, attributes) <= Limits.MESSAGE_BYTES, "a dead letter is never too large")
    expect(body in (record["body"], MOVED), "a dead letter has the body that was sent")


def draw_original(rng: Random) -> messages.Message:
    """Return a message with attributes."""
    return messages.message(rng) | {"attributes": messages.attributes(rng)}
