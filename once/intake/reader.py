"""Reader: decodes an SQS message into event, key, fingerprint and typed data.

Decoding a body may end the function, as running a handler may. `receive` therefore uses only what
SQS itself adds to a message, such as its receive count; `read` decodes the body, on its turn.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from once.deadline import Deadline
from once.errors import (
    InvalidData,
    OnceError,
    Unexpected,
    UnknownType,
    Unparseable,
)
from once.events.cloud_event import DATAREF, CloudEvent
from once.events.dedup_key import key_hash
from once.events.fingerprint import fingerprint
from once.intake._event_source import check_source
from once.intake.adapter import adapter_of
from once.intake.original_message import MOVED
from once.registration import Handler
from once.schema import Limits
from once.settings import Dedup, Settings
from once.transaction import Identity

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    from once.claim_check.store import ClaimStore
    from once.transaction import FormerRecord

_OFTEN = 3
"""Receives after which a message itself may be ending the function, when it is read or runs.

Two may be due to another message: its first batch, and a second one if SQS delivers both together
again.
"""

_LAST_HOURS_SECONDS = 2 * 60 * 60
"""Time before the end of retention in which a delivery counts as the last chance.

It is longer than each delay, so that no delay ends after SQS has deleted the message.
"""

_LAST_ATTEMPTS_SECONDS = 2 * _LAST_HOURS_SECONDS
"""The same for a message that blocks its group. In the first half it may still run. In the second
half it must not: a message that ends the function would be deleted before its next delivery."""


class DecodedEvent(msgspec.Struct, frozen=True):
    """An event with its identity and its handler.

    `data` is of the handler's model, or is an InvalidData error. Reading does not raise the error,
    since an event that is already committed is a duplicate in both cases.
    """

    event: CloudEvent
    identity: Identity
    handler: Handler
    data: Any


@dataclass(slots=True, eq=False)
class Delivery:
    """One delivery of a message by SQS. Only `RecordReader` writes it.

    Attributes:
        record: the message as Lambda received it.
        decoded: its event, or the error that prevents reading it.
        receive_count: deliveries of the message so far, this one included.
        group: the message group id, if it has one. A standard queue shares its deliveries fairly
            between groups; only a FIFO queue keeps their order.
        ordered_group: the message group whose order must hold; None on a standard queue.
        pk: partition key of the dedup record, set as soon as the key is known.
        is_isolated: whether the message comes from the isolation queue.
        is_last_chance: whether the message will not run again after this delivery.
        is_expiring: whether the reason for that is the end of its retention.
        is_spent: whether the message was delivered as often as it may run: it is neither read nor
            run. Deliveries in which it waited behind an earlier message of its FIFO group, as it
            does in this one, do not count.
        came_often: whether the message itself may have ended the function in earlier deliveries. It
            is read alone, on its turn.
        decoded: its event, or the error that prevents reading it; None before it is read.
    """

    record: "SQSRecord"
    receive_count: int = 1
    group: str | None = None
    ordered_group: str | None = None
    pk: str | None = None
    is_isolated: bool = False
    is_last_chance: bool = False
    is_expiring: bool = False
    is_spent: bool = False
    came_often: bool = False
    decoded: DecodedEvent | OnceError | None = None

    @property
    def log_fields(self) -> dict[str, str | int]:
        """Fields that identify the message in a log line. They contain nothing of its content."""
        fields: dict[str, str | int] = {
            "message_id": self.record.message_id,
            "receive_count": self.receive_count,
        }
        if self.pk is not None:
            fields["key_hash"] = key_hash(self.pk)
        return fields


class RecordReader:
    """Reads deliveries for one consumer.

    Args:
        settings: the function's settings.
        handlers: the consumer's handlers, by event type.
        clock: the time, in seconds since the epoch.
        claims: the claim-check bucket, if the consumer has one.
    """

    def __init__(
        self,
        settings: Settings,
        handlers: Mapping[str, Handler],
        clock: Callable[[], float],
        claims: "ClaimStore | None" = None,
    ) -> None:
        self._settings = settings
        self._handlers = handlers
        self._clock = clock
        self._claims = claims
        self._event_in = adapter_of(settings.event_source)
        url = settings.isolation_queue_url
        self._isolation_queue = None if url is None else url.rpartition("/")[2]

    def receive(self, records: "Iterable[SQSRecord]") -> list[Delivery]:
        """Return the deliveries of a batch, in the order of its records, without reading a body."""
        heads: set[str] = set()
        deliveries = []
        for record in records:
            delivery = Delivery(record)
            try:
                self._read_attributes(delivery, heads)
            except Exception as error:  # must not affect the other messages of the batch
                delivery.decoded = Unexpected(error)
            deliveries.append(delivery)
        return deliveries

    def read(self, delivery: Delivery, deadline: Deadline) -> DecodedEvent | OnceError:
        """Read the body of a message; return its event, or the error that prevents reading it."""
        decoded: DecodedEvent | OnceError
        try:
            decoded = self._decode(delivery, deadline)
        except OnceError as error:
            decoded = _without_traceback(error)
        except Exception as error:  # must not affect the other messages of the batch
            decoded = Unexpected(error)
        delivery.decoded = decoded
        return decoded

    def _read_attributes(self, delivery: Delivery, heads: set[str]) -> None:
        # Each property of Powertools' record takes longer than all of these items.
        attributes, queue = delivery.record["attributes"], delivery.record["eventSourceARN"]
        delivery.is_isolated = queue.rpartition(":")[2] == self._isolation_queue
        delivery.receive_count = int(attributes["ApproximateReceiveCount"])
        delivery.group = attributes.get("MessageGroupId")
        delivery.ordered_group = delivery.group if queue.endswith(".fifo") else None
        end = int(attributes["SentTimestamp"]) / 1000 + Limits.QUEUE_RETENTION_SECONDS
        waits = delivery.ordered_group in heads
        if delivery.ordered_group is not None:
            heads.add(delivery.ordered_group)
        self._set_chances(delivery, end - self._clock(), waits=waits)

    def _set_chances(self, delivery: Delivery, seconds_left: float, *, waits: bool) -> None:
        receives, most = delivery.receive_count, self._settings.max_receive_count
        blocks = self._settings.blocks_group and delivery.ordered_group is not None
        last = _LAST_ATTEMPTS_SECONDS if blocks else _LAST_HOURS_SECONDS
        delivery.is_expiring = seconds_left < last
        delivery.is_last_chance = receives >= most or delivery.is_expiring
        ends = blocks and receives > 1 and seconds_left < _LAST_HOURS_SECONDS
        delivery.is_spent = (receives > most or ends) and not waits
        delivery.came_often = receives >= _OFTEN or delivery.is_spent or delivery.is_isolated

    def _decode(self, delivery: Delivery, deadline: Deadline) -> DecodedEvent:
        if delivery.record.body == MOVED:
            raise Unparseable(
                f"{MOVED}, compressed: send it back with `dlq redrive`, which opens it"
            )
        body = self._body(delivery.record.body)
        event = self._event_in(body, max_bytes=self._settings.max_body_bytes, deadline=deadline)
        handler = self._handlers.get(event.type)
        if handler is None:
            raise UnknownType(
                f"{self._settings.consumer} has no handler for {event.type}: register one, or take "
                "the type out of the consumer's declaration in the CDK app"
            )
        check_source(event, delivery.record, self._settings.sources)
        event = self._with_data(event, deadline)
        content = fingerprint(event, volatile=handler.volatile, deadline=deadline)
        delivery.pk = handler.key.of(event, fingerprint=content, consumer=self._settings.consumer)
        on_item = self._settings.dedup is Dedup.ITEM
        item = handler.key.item_values(event) if on_item else ()
        identity = Identity(delivery.pk, content, item, self._former(event, handler))
        return DecodedEvent(event, identity, handler, _convert(event, handler))

    def _former(self, event: CloudEvent, handler: Handler) -> "FormerRecord | None":
        if handler.former is None:
            return None
        table = self._settings.tables[handler.former.table.name]
        return handler.former.record_of(event, table.key)

    def _body(self, body: str) -> str:
        if not body.startswith('["'):  # as every pointer does, and no CloudEvent
            return body
        from once.intake.claimed_data import claimed_body

        return claimed_body(body, self._claims)

    def _with_data(self, event: CloudEvent, deadline: Deadline) -> CloudEvent:
        if event.data is not None or DATAREF not in event.extensions:
            return event
        from once.intake.claimed_data import with_claimed_data

        return with_claimed_data(
            event, self._claims, max_bytes=self._settings.max_body_bytes, deadline=deadline
        )


def _convert(event: CloudEvent, handler: Handler) -> Any:
    try:
        return msgspec.convert(event.data, handler.model)
    except (msgspec.ValidationError, ArithmeticError) as error:
        return InvalidData(f"{event.type} does not fit {handler.model.__name__}: {error}")


def _without_traceback(error: OnceError) -> OnceError:
    """Return an error without its traceback, whose frames would keep the decoded data alive."""
    error.__context__ = None
    return error.with_traceback(None)
