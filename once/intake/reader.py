"""Reader: decodes an SQS message into event, key, fingerprint and typed data.

Decoding a body may end the function, as running a handler may. `receive` therefore uses only what
SQS itself adds to a message, such as its receive count; `read` decodes the body, on its turn.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import msgspec
from msgspec import Struct, field

from once.errors import (
    InvalidData,
    InvalidEvent,
    NoKey,
    OnceError,
    Unexpected,
    UnknownType,
    Unparseable,
    UntrustedSource,
)
from once.events.cloud_event import DATAREF, MODEL_FAULTS, CloudEvent, fault_text, read_event
from once.events.identity import key_and_fingerprint
from once.events.models import model_of
from once.events.strict_json import BYTE_ORDER_MARK, make_integers, parse
from once.intake.original_message import MOVED, restored, text_of
from once.intake.registration import Handler
from once.names import EVENT_TYPE_ATTRIBUTE, SOURCE_PREFIX, DeadLetterAttribute, Limits
from once.runtime.deadline import Deadline
from once.settings import Dedup, Settings
from once.transaction import Identity

if TYPE_CHECKING:
    from once.events.claim_check import ClaimStore
    from once.intake.envelopes import Adapter

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


class SqsRecord(TypedDict):
    """A message in Lambda's SQS event. Powertools' class of it loads forty others, in 46 ms."""

    messageId: str
    receiptHandle: str
    body: str
    attributes: dict[str, str]
    messageAttributes: NotRequired[dict[str, dict[str, Any]] | None]
    eventSourceARN: str


class Disposition(StrEnum):
    """The final state of a message in one delivery."""

    COMMITTED = "committed"
    """Its writes and its dedup record are in the tables: SQS may delete it."""
    REFUSED = "refused"
    """The writes of its rejection are: a refusal is a business outcome, and no failure."""
    DUPLICATE = "duplicate"
    """Its event had committed before, in another delivery or another message."""
    ISOLATED = "isolated"
    """A copy waits in the isolation queue: this message is deleted, and its event is not lost."""
    QUARANTINED = "quarantined"
    """A copy is in the dead-letter queue: another attempt cannot succeed, or was the last."""
    RETRIED = "retried"
    """It stays in its queue. Only this state is reported to Lambda as a failure."""
    TEST_MESSAGE = "test-message"
    """It has no event: a service tested the queue."""


MessageResult = Disposition | OnceError
"""A disposition, or the error from which one follows: quarantined, or retried."""


class DecodedEvent(msgspec.Struct, frozen=True):
    """An event with its identity and its handler.

    `data` is of the handler's model, or is an InvalidData error. Reading does not raise the error,
    since an event that is already committed is a duplicate in both cases.
    """

    event: CloudEvent
    identity: Identity
    handler: Handler
    data: Any


class Delivery(Struct, eq=False):
    """One delivery of a message by SQS. Only `RecordReader` writes it.

    Attributes:
        record: the message as Lambda received it.
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
        log_fields: identify the message in a log line: `message_id`, `receive_count` and, as soon
            as the key is known, `key_hash`. They contain nothing of its content.
    """

    record: SqsRecord
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
    log_fields: dict[str, str | int] = field(default_factory=dict)


class RecordReader:
    """Reads deliveries for one consumer. `claims` is the claim-check bucket, if it has one."""

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
        self._event_in: Adapter = read_event
        if settings.event_source is not None:
            from once.intake.envelopes import adapter_of  # most consumers have no envelope

            self._event_in = adapter_of(settings.event_source)
        url = settings.isolation_queue_url
        self._isolation_queue = None if url is None else url.rpartition("/")[2]

    def receive(self, records: Iterable[SqsRecord]) -> list[Delivery]:
        """Return the deliveries of a batch, in the order of its records, without reading a body."""
        heads: set[str] = set()
        deliveries = []
        for record in records:
            delivery = Delivery(record, log_fields={"message_id": record["messageId"]})
            try:
                self._read_attributes(delivery, heads)
            except Exception as error:  # must not affect the other messages of the batch
                delivery.decoded = Unexpected(error)
            deliveries.append(delivery)
        return deliveries

    def _read_attributes(self, delivery: Delivery, heads: set[str]) -> None:
        attributes, queue = delivery.record["attributes"], delivery.record["eventSourceARN"]
        receives = delivery.receive_count = int(attributes["ApproximateReceiveCount"])
        delivery.log_fields["receive_count"] = receives
        delivery.is_isolated = queue.rpartition(":")[2] == self._isolation_queue
        delivery.group = attributes.get("MessageGroupId")
        delivery.ordered_group = delivery.group if queue.endswith(".fifo") else None
        # SQS delivers several messages of a group together, and counts a receive for each. All but
        # the first only wait in this delivery.
        waits = delivery.ordered_group in heads
        if delivery.ordered_group is not None:
            heads.add(delivery.ordered_group)

        end = int(attributes["SentTimestamp"]) / 1000 + Limits.QUEUE_RETENTION_SECONDS
        seconds_left = end - self._clock()
        blocks = self._settings.blocks_group and delivery.ordered_group is not None
        last = _LAST_ATTEMPTS_SECONDS if blocks else _LAST_HOURS_SECONDS
        delivery.is_expiring = seconds_left < last
        most = self._settings.max_receive_count
        delivery.is_last_chance = receives >= most or delivery.is_expiring
        # The first receive is never the end: a message that waited long in its group is tried once.
        ends = blocks and receives > 1 and seconds_left < _LAST_HOURS_SECONDS
        delivery.is_spent = (receives > most or ends) and not waits
        delivery.came_often = receives >= _OFTEN or delivery.is_spent or delivery.is_isolated

    def read(self, delivery: Delivery, deadline: Deadline) -> DecodedEvent | OnceError:
        """Read the body of a message; return its event, or the error that prevents reading it."""
        try:
            found = self._decode(delivery, deadline)
            if isinstance(found.data, InvalidData):
                fault = self._envelope_fault(delivery, deadline)
                data = InvalidData(f"{found.data}; {fault}") if fault else found.data
                found = msgspec.structs.replace(found, data=data)
            delivery.decoded = found
        except OnceError as failure:
            error = failure
            if isinstance(error, InvalidEvent | NoKey):
                fault = self._envelope_fault(delivery, deadline)
                error = InvalidEvent(fault) if fault else error
            # A batch keeps its errors. Traceback and context would keep the decoded data as well.
            error.__context__ = None
            delivery.decoded = error.with_traceback(None)
        except BaseException as error:  # must not end the other messages of the batch
            delivery.decoded = Unexpected(error)
        return delivery.decoded

    def _envelope_fault(self, delivery: Delivery, deadline: Deadline) -> str | None:
        """Return the mistake of a body in another envelope than the declared one; None if none."""
        from once.intake.foreign_events import envelope_fault  # few messages fail

        parsed = partial(parse, max_bytes=self._settings.max_body_bytes, deadline=deadline)
        return envelope_fault(delivery.record["body"], self._settings.event_source, parsed)

    def _decode(self, delivery: Delivery, deadline: Deadline) -> DecodedEvent:
        settings, body = self._settings, delivery.record["body"]
        if body == MOVED:
            raise Unparseable(
                f"{MOVED}, compressed: send it back with `dlq redrive`, which opens it"
            )
        plain = body.removeprefix(BYTE_ORDER_MARK)
        if plain.startswith('["'):  # as every pointer does, and no CloudEvent
            # Loaded late: few messages are pointers, and each module costs time at a cold start.
            from once.events.claim_check import claimed_body

            body = claimed_body(plain, self._claims)
        event = self._event_in(body, max_bytes=settings.max_body_bytes, deadline=deadline)
        handler = self._handlers.get(event.type)
        if handler is None:
            raise UnknownType(
                f"{settings.consumer} has no handler for {event.type}: register one, or take "
                "the type out of the consumer's declaration in the CDK app"
            )
        _check_source(event, delivery.record, settings.sources)
        event = with_claimed_data(
            event, self._claims, max_bytes=settings.max_body_bytes, deadline=deadline
        )
        identity = self._key(delivery, event, handler, deadline)
        return DecodedEvent(event, identity, handler, converted(event, handler))

    def _key(
        self, delivery: Delivery, event: CloudEvent, handler: Handler, deadline: Deadline
    ) -> Identity:
        """Return the event's identity; its key is set on the delivery too, for dead letter and log.

        Raises:
            NoKey: the event has no key by the handler's rule.
        """
        settings = self._settings
        delivery.pk, delivery.log_fields["key_hash"], content = key_and_fingerprint(
            event,
            handler.key,
            consumer=settings.consumer,
            volatile=handler.volatile,
            deadline=deadline,
        )
        item = handler.key.item_values(event) if settings.dedup is Dedup.ITEM else ()
        former = None
        if handler.former is not None:
            former = handler.former.record_of(event, settings.tables[handler.former.table.name].key)
        return Identity(delivery.pk, content, item, former)


def with_claimed_data(
    event: CloudEvent, store: "ClaimStore | None", *, max_bytes: int, deadline: Deadline | None
) -> CloudEvent:
    """Return an event with the data that its `dataref` refers to; unchanged if it has data.

    The event's source was checked. Data of at most `max_bytes` is read, until the deadline.

    Raises:
        InvalidClaim, ClaimMissing, ClaimUnavailable, TooLarge, Unparseable: see
            `once.events.claim_check.claimed_data`.
        OutOfTime: see `once.events.strict_json.parse`.
    """
    if event.data is not None or DATAREF not in event.extensions:
        return event
    # Loaded late: few events have their data in S3.
    from once.events.claim_check import claimed_data

    uri = event.extensions[DATAREF]
    text = claimed_data(uri, store, source=event.source, event_id=event.id)
    data = parse(text, max_bytes=max_bytes, deadline=deadline)
    return msgspec.structs.replace(event, data=data)


def converted(event: CloudEvent, handler: Handler) -> Any:
    """Return the data as an object of the handler's model, or an InvalidData error."""
    try:
        return model_of(handler.model).read(event.data)
    except MODEL_FAULTS as error:
        text = f"{event.type} does not fit {handler.model.__name__}: {fault_text(error)}"
    # The model may have an integer where the producer writes 1.0. This is rarely needed, and not
    # done before: in a Decimal, 1.00 stays what the producer wrote.
    if isinstance(event.data, dict | list):
        make_integers(event.data)
        with suppress(*MODEL_FAULTS):
            return model_of(handler.model).read(event.data)
    return InvalidData(text)


def _check_source(
    event: CloudEvent, record: SqsRecord, sources: Mapping[str, tuple[str, ...]]
) -> None:
    """Refuse an event that its source may not publish.

    Producers publish external types to the ingress topic. Internal types, which consumers publish,
    have the source `/once/<consumer>` and come from the events topic, where only the relay may
    publish. A producer's event is thus never taken for a consumer's.
    """
    allowed = sources.get(event.type)
    if allowed is None:
        if event.source.startswith(SOURCE_PREFIX):
            raise UntrustedSource(
                f"{event.type} comes from producers, and sources under {SOURCE_PREFIX} are those "
                "of consumers: publish it with another source, or declare the type in events= of "
                "the consumer's declaration in the CDK app"
            )
        return
    if event.source not in allowed:
        raise UntrustedSource(
            f"{event.type} may come from {' or '.join(allowed)} only: if producers publish it, "
            "declare it in external= of the consumer's declaration in the CDK app"
        )
    # A subscription's filter reads the attribute, and the handler is chosen by the body. With the
    # attribute of an external type, a producer could otherwise get any body delivered.
    attributes: Mapping[str, Any] = record.get("messageAttributes") or {}
    if EVENT_TYPE_ATTRIBUTE not in attributes:
        # After a redrive, the attribute that the topic delivered is among those that were kept.
        attributes = restored(text_of(attributes, DeadLetterAttribute.ATTRIBUTES) or "")
    routed = attributes.get(EVENT_TYPE_ATTRIBUTE)
    if routed is not None and routed.get("stringValue") != event.type:
        raise UntrustedSource(
            f"the message's attribute `{EVENT_TYPE_ATTRIBUTE}` is not {event.type}: it was "
            "delivered for another type, so it does not come from the relay"
        )
