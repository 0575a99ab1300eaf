"""Batch telemetry: what became of the messages of an invocation, as spans."""

from typing import TYPE_CHECKING

from once.disposition import Disposition
from once.errors import OnceError
from once.intake.reader import DecodedEvent
from once.telemetry import MessageSpan, Telemetry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from once.deadline import Deadline
    from once.disposition import MessageResult
    from once.intake.reader import Delivery

    Settled = tuple[Delivery, MessageResult, Disposition]

_FAILED = frozenset({Disposition.RETRIED, Disposition.QUARANTINED, Disposition.ISOLATED})
_TRACE_CONTEXT = ("traceparent", "tracestate")


def send_telemetry(
    telemetry: Telemetry,
    finished: "Sequence[Settled]",
    began: float,
    ended: float,
    deadline: "Deadline",
) -> None:
    """Send the spans and figures of an invocation, unless Lambda is about to end it.

    Args:
        telemetry: sends them.
        finished: each message of the batch, with its result and its disposition.
        began: start of the invocation, in seconds since the epoch.
        ended: its end.
        deadline: the time that the invocation has left.
    """
    telemetry.batch([_span(*message) for message in finished], began, ended)
    if not deadline.hurried:
        telemetry.flush()


def _span(delivery: "Delivery", result: "MessageResult", disposition: Disposition) -> MessageSpan:
    attributes: dict[str, str | int] = {
        "messaging.system": "aws_sqs",
        "messaging.destination.name": delivery.record.event_source_arn.rpartition(":")[2],
        "messaging.message.id": delivery.record.message_id,
        "once.receive_count": delivery.receive_count,
        "once.disposition": str(disposition),
    }
    if key_hash := delivery.log_fields.get("key_hash"):
        attributes["once.key_hash"] = key_hash
    if isinstance(result, OnceError):
        attributes["once.error"] = type(result).__name__
    name, carrier = "process", dict[str, str]()
    if isinstance(delivery.decoded, DecodedEvent):
        event = delivery.decoded.event
        attributes["once.event_type"] = event.type
        name = f"process {event.type}"
        found = {key: event.extensions.get(key) for key in _TRACE_CONTEXT}
        carrier = {key: value for key, value in found.items() if isinstance(value, str)}
    return MessageSpan(name, carrier, attributes, disposition in _FAILED)
