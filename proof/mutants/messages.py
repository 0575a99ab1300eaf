"""Broken intake, acknowledgement, relay and redrive."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from once.batch.isolation import Isolation
from once.batch.message import Message
from once.batch.processor import BatchProcessor
from once.commit.dedup_record import _condition
from once.intake.reader import DecodedEvent, Delivery, RecordReader
from once.ops.dead_letters.redrive import Redrive
from once.outbox.relay import Publisher
from once.runtime.deadline import Deadline
from once.transaction import Identity, Transaction

_handle = BatchProcessor.handle
_publish = Publisher.publish
_sent = Redrive._sent
_move = Isolation.move
_decode = RecordReader._decode
_settle = BatchProcessor.settle


def acknowledge_all(self: BatchProcessor, event: Any, context: Any) -> Any:
    """Acknowledge every message of a batch."""
    _handle(self, event, context)
    return {"batchItemFailures": []}


def ignore_unpublished(self: Publisher, events: Any) -> list[Any]:
    """Publish once, and report every event as published."""
    _publish(self, events)
    return []


def delete_first(self: Redrive, messages: Any) -> Any:
    """Delete dead letters before they are sent."""
    self.walk.delete([message.letter for message in messages])
    return _sent(self, messages)


def acknowledge_first(self: Isolation, messages: Sequence[Message], deadline: Deadline) -> Any:
    """Delete messages before they are in the isolation queue."""
    self.acknowledge([message.delivery for message in messages], deadline)
    return _move(self, messages, deadline)


def read_first(
    self: BatchProcessor, messages: Sequence[Message], deadline: Deadline, metrics: Any
) -> Any:
    """Read all bodies of a batch before any message is moved or dead-lettered."""
    for message in messages:
        self.reader.read(message.delivery, message.deadline)
    return _settle(self, messages, deadline, metrics)


def message_id_as_key(self: RecordReader, delivery: Delivery, deadline: Deadline) -> DecodedEvent:
    """Use the message's id as the idempotency key."""
    event = _decode(self, delivery, deadline)
    delivery.pk = f"{self._settings.consumer}#{delivery.record.message_id}"
    return msgspec.structs.replace(
        event, identity=Identity(delivery.pk, event.identity.fingerprint)
    )


def relay_removals(record: Mapping[str, Any]) -> bool:
    """Relay the old image of a removed record."""
    images = record["dynamodb"]
    images.setdefault("NewImage", images.get("OldImage"))
    return True


def no_condition_for_notifications(transaction: Transaction, now: float) -> Any:
    """Put the records of one consumer without a condition."""
    if transaction.identity.pk.startswith("notifications#"):
        return {}
    return _condition(transaction, now)
