"""From a message body to what its handler needs: event, key, fingerprint, typed data."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from once.deadline import Budget
from once.errors import (
    InvalidData,
    OnceError,
    OutOfTime,
    Unexpected,
    UnknownType,
    Unparseable,
)
from once.events.cloud_event import CloudEvent, read_event
from once.events.fingerprint import fingerprint
from once.handlers.registration import Handler
from once.handlers.transaction import Identity
from once.intake.event_source import check_source
from once.intake.original_message import MOVED
from once.settings import Settings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord


@dataclass(frozen=True, slots=True)
class Task:
    """A message that can be worked on.

    `data` fits the handler's model, or is the InvalidData that says why it does not: an event that
    is already committed is a duplicate all the same.
    """

    event: CloudEvent
    identity: Identity
    handler: Handler
    data: Any


@dataclass(slots=True, eq=False)
class Delivery:
    """One message of a batch, and its task, or the reason why there is none.

    `receive_count` is how often SQS has delivered the message, this time included; `sent_at` when
    it was sent, in seconds since the epoch; `group` the FIFO
    message group, None on a standard queue, where groups only share fairly. `pk` is set as soon as
    the key is known, so that a dead letter can name it.
    """

    record: "SQSRecord"
    receive_count: int = 1
    sent_at: float = field(default_factory=time.time)
    group: str | None = None
    pk: str | None = None
    work: Task | OnceError = field(init=False)

    def read_attributes(self) -> None:
        """Read what SQS says of the message."""
        self.receive_count = int(self.record.attributes.approximate_receive_count)
        self.sent_at = int(self.record.attributes.sent_timestamp) / 1000
        is_fifo = self.record.event_source_arn.endswith(".fifo")
        self.group = self.record.attributes.message_group_id if is_fifo else None


class Intake:
    """Reads deliveries for one consumer."""

    def __init__(self, settings: Settings, handlers: Mapping[str, Handler]) -> None:
        self._settings = settings
        self._handlers = handlers

    def read(self, record: "SQSRecord", budget: Budget) -> Delivery:
        """Read a message; where that fails, the error takes the place of the task.

        Without time left its body is not read.
        """
        delivery = Delivery(record)
        try:
            delivery.read_attributes()
            delivery.work = _out_of_time() if budget.spent else self._task(delivery)
        except OnceError as error:
            delivery.work = _forgetful(error)
        except Exception as error:  # one message never takes its neighbours along
            delivery.work = Unexpected(error)
        return delivery

    def _task(self, delivery: Delivery) -> Task:
        if delivery.record.body == MOVED:
            raise Unparseable(
                f"{MOVED}, compressed: send it back with `dlq redrive`, which opens it"
            )
        event = read_event(delivery.record.body, max_bytes=self._settings.max_body_bytes)
        handler = self._handlers.get(event.type)
        if handler is None:
            raise UnknownType(
                f"{self._settings.consumer} has no handler for {event.type}: register one, or take "
                "the type out of the consumer's line in stacks/consumers.py"
            )
        check_source(event, delivery.record, self._settings.sources)
        content = fingerprint(event, volatile=handler.volatile)
        delivery.pk = handler.key.of(event, fingerprint=content, consumer=self._settings.consumer)
        identity = Identity(delivery.pk, content)
        return Task(event, identity, handler, _convert(event, handler))


def _convert(event: CloudEvent, handler: Handler) -> Any:
    try:
        return msgspec.convert(event.data, handler.model)
    except (msgspec.ValidationError, ArithmeticError) as error:
        return InvalidData(f"{event.type} does not fit {handler.model.__name__}: {error}")


def _out_of_time() -> OutOfTime:
    return OutOfTime("the invocation's time was up before the message was read")


def _forgetful(error: OnceError) -> OnceError:
    """Return an error without the frames that it came through: they hold all that was decoded."""
    error.__context__ = None
    return error.with_traceback(None)
