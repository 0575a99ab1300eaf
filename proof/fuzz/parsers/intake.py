"""`once.intake.reader.Intake`: from a message to a task, with the models of `functions/`."""

from random import Random
from typing import Any

import msgspec
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from functions.inventory.handler import consumer as inventory
from functions.notifications.handler import consumer as notifications
from functions.orders.handler import consumer as orders
from functions.payments.handler import consumer as payments
from once.consumer import Consumer
from once.errors import (
    InvalidData,
    InvalidEvent,
    NoKey,
    OnceError,
    TooLarge,
    UnknownType,
    Unparseable,
    UntrustedSource,
)
from once.intake.reader import Delivery, Intake, Task
from once.schema import Limits
from once.settings import Settings
from proof.fuzz import fakes, messages, reference
from proof.fuzz.target import Target, claim

LISTED = (Unparseable, TooLarge, NoKey, InvalidEvent, UnknownType, UntrustedSource, InvalidData)
CONSUMERS = {consumer.name: consumer for consumer in (orders, inventory, payments, notifications)}
_HASH_DIGITS = 64


def settings_of(consumer: Consumer) -> Settings:
    """Return settings under which a consumer can be tried; its tables have no other names."""
    return Settings(
        consumer=consumer.name,
        event_types=tuple(consumer.handlers),
        queue_url="queue",
        dead_letter_url="dead-letters",
        dedup_table="dedup",
        tables={},
        dedup_window_seconds=45 * 24 * 60 * 60,
    )


_INTAKES = {name: Intake(settings_of(c), c.handlers) for name, c in CONSUMERS.items()}


def check(case: tuple[str, messages.Message]) -> None:
    """Let a consumer read a message: it becomes a task that is sound, or a listed error."""
    name, message = case
    delivery = _INTAKES[name].read(SQSRecord(messages.record(message)), fakes.BUDGET)
    if isinstance(delivery.work, Task):
        _check_task(name, delivery, delivery.work)
    error = _error(delivery.work)
    claim(error is None or isinstance(error, LISTED), "a refusal has a reason that is listed")


def _error(work: Any) -> Any:
    found = work.data if isinstance(work, Task) else work
    return found if isinstance(found, OnceError) else None


def _check_task(name: str, delivery: Delivery, task: Task) -> None:
    pk = task.identity.pk
    claim(delivery.pk == pk and pk.startswith(f"{name}#"), "a key is its consumer's own")
    claim(len(pk.encode()) <= Limits.PARTITION_KEY_BYTES, "a key fits into the table")
    claim(len(task.identity.fingerprint) == _HASH_DIGITS, "every task has a fingerprint")
    if isinstance(task.data, InvalidData):
        return
    claim(isinstance(task.data, task.handler.model), "a handler gets its own model")
    read, sent = msgspec.to_builtins(task.data), task.event.data
    claim(
        all(reference.meaning(read[field]) == reference.meaning(_kept(read[field], sent[field]))
            for field in read),
        "a model holds what was sent",
    )  # fmt: skip


def _kept(read: Any, sent: Any) -> Any:
    """Return of what was sent the members that a model knows."""
    if isinstance(read, dict):
        return {name: _kept(member, sent[name]) for name, member in read.items()}
    if isinstance(read, list | tuple):
        return [_kept(*members) for members in zip(read, sent, strict=True)]
    return sent


def draw(rng: Random) -> tuple[str, messages.Message]:
    """Return a consumer's name and a message."""
    return rng.choice(list(CONSUMERS)), messages.message(rng)


TARGET = Target("intake", share=12, draw=draw, check=check)
