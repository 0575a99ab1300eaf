"""From a message body to what its handler needs: event, key, fingerprint, typed data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from once.errors import InvalidData, OnceError, Unexpected, UnknownType
from once.events import CloudEvent, read_event
from once.fingerprint import fingerprint
from once.handlers import Handler
from once.original import Original
from once.settings import Settings
from once.sources import check_source
from once.transaction import Identity

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord


@dataclass(frozen=True, slots=True)
class Task:
    """A message that can be worked on."""

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
    original: Original = field(init=False)
    receive_count: int = field(init=False)
    sent_at: float = field(init=False)
    group: str | None = field(init=False)
    pk: str | None = None
    work: Task | OnceError = field(init=False)

    def __post_init__(self) -> None:
        self.original = Original.of(self.record)
        self.receive_count = int(self.record.attributes.approximate_receive_count)
        self.sent_at = int(self.record.attributes.sent_timestamp) / 1000
        is_fifo = self.record.event_source_arn.endswith(".fifo")
        self.group = self.record.attributes.message_group_id if is_fifo else None


class Intake:
    """Reads deliveries for one consumer."""

    def __init__(self, settings: Settings, handlers: Mapping[str, Handler]) -> None:
        self._settings = settings
        self._handlers = handlers

    def read(self, record: "SQSRecord") -> Delivery:
        """Read a message; where that fails, the error takes the place of the task."""
        delivery = Delivery(record)
        try:
            delivery.work = self._task(delivery)
        except OnceError as error:
            delivery.work = error
        except Exception as error:  # one message never takes its neighbours along
            delivery.work = Unexpected(error)
        return delivery

    def _task(self, delivery: Delivery) -> Task:
        event = read_event(delivery.original.body, max_bytes=self._settings.max_body_bytes)
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
        raise InvalidData(f"{event.type} does not fit {handler.model.__name__}: {error}") from None
