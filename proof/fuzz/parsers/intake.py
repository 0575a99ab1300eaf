"""`once.intake.reader.RecordReader`: from message to event, with the models of `functions/`."""

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
from once.intake.reader import DecodedEvent, Delivery, RecordReader
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


_READERS = {
    name: RecordReader(settings_of(c), c.handlers, lambda: messages.NOW)
    for name, c in CONSUMERS.items()
}


def check(case: tuple[str, messages.Message]) -> None:
    """Let a consumer read a message: it becomes an event that is sound, or a listed error."""
    name, message = case
    delivery = _READERS[name].read(SQSRecord(messages.record(message)), fakes.DEADLINE)
    if isinstance(delivery.decoded, DecodedEvent):
        _check_event(name, delivery, delivery.decoded)
    error = _error(delivery.decoded)
    claim(error is None or isinstance(error, LISTED), "a refusal has a reason that is listed")


def _error(decoded: Any) -> Any:
    found = decoded.data if isinstance(decoded, DecodedEvent) else decoded
    return found if isinstance(found, OnceError) else None


def _check_event(name: str, delivery: Delivery, event: DecodedEvent) -> None:
    pk = event.identity.pk
    claim(delivery.pk == pk and pk.startswith(f"{name}#"), "a key is its consumer's own")
    claim(len(pk.encode()) <= Limits.PARTITION_KEY_BYTES, "a key fits into the table")
    claim(len(event.identity.fingerprint) == _HASH_DIGITS, "every event has a fingerprint")
    if isinstance(event.data, InvalidData):
        return
    claim(isinstance(event.data, event.handler.model), "a handler gets its own model")
    read, sent = msgspec.to_builtins(event.data), event.event.data
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
