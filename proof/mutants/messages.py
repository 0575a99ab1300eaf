"""Broken intake, acknowledgement, relay and redrive, made of the real ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from once.batch.isolation import Isolation
from once.batch.message_state import Course
from once.batch.processor import Batch
from once.commit.dedup_record import _condition
from once.deadline import Budget
from once.handlers.transaction import Identity, Transaction
from once.intake.reader import Delivery, Intake, Task
from once.ops.dead_letters.redrive import Redriver, delete
from once.outbox.sns_publisher import Publisher

_process = Batch.process
_publish = Publisher.publish
_sent = Redriver._sent
_move = Isolation.move
_task = Intake._task


def everything_is_acknowledged(self: Batch, records: Any) -> Any:
    """Acknowledge each message of a batch."""
    _process(self, records)
    return {"batchItemFailures": []}


def nothing_is_missing(self: Publisher, events: Any) -> list[Any]:
    """Publish once, and let Lambda move on in the stream."""
    _publish(self, events)
    return []


def delete_first(self: Redriver, pairs: Any) -> Any:
    """Delete dead letters before they are sent."""
    delete(self._sqs, [letter for letter, _ in pairs])
    return _sent(self, pairs)


def acknowledged_first(self: Isolation, courses: Sequence[Course], budget: Budget) -> Any:
    """Delete messages before they are in the isolation queue."""
    self.acknowledge(courses, budget)
    return _move(self, courses, budget)


def message_id_as_key(self: Intake, delivery: Delivery) -> Task:
    """Take the message's id for the event's."""
    task = _task(self, delivery)
    delivery.pk = f"{self._settings.consumer}#{delivery.record.message_id}"
    return replace(task, identity=Identity(delivery.pk, task.identity.fingerprint))


def removals_are_new(record: Mapping[str, Any]) -> bool:
    """Relay a removal like a commit."""
    images = record["dynamodb"]
    images.setdefault("NewImage", images.get("OldImage"))
    return True


def not_of_notifications(transaction: Transaction, now: float) -> Any:
    """Put the records of one consumer without a condition."""
    if transaction.identity.pk.startswith("notifications#"):
        return {}
    return _condition(transaction, now)
