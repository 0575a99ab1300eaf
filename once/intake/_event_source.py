"""Event source: checks that an event comes from a source that may publish its type.

Producers publish external types to the ingress topic. Internal types, which consumers publish, have
the source `/once/<consumer>` and come from the events topic, where only the relay may publish. A
producer's event is thus never taken for a consumer's.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from once.errors import UntrustedSource
from once.events.cloud_event import CloudEvent
from once.intake.original_message import restored, text_of
from once.schema import EVENT_TYPE_ATTRIBUTE, SOURCE_PREFIX, DeadLetter

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

Sources = Mapping[str, tuple[str, ...]]
"""The sources that each internal type may come from."""


def check_source(event: CloudEvent, record: "SQSRecord", sources: Sources) -> None:
    """Refuse an event that its source may not publish.

    Args:
        event: the event.
        record: the message with the event.
        sources: `once.settings.Settings.sources`.

    Raises:
        UntrustedSource: the source may not publish this type.
    """
    if event.type in sources:
        _check_internal(event, record, sources[event.type])
    elif event.source.startswith(SOURCE_PREFIX):
        raise UntrustedSource(
            f"{event.type} comes from producers, and sources under {SOURCE_PREFIX} are those of "
            "consumers: publish it with another source, or declare the type in events= of the "
            "consumer's declaration in the CDK app"
        )


def _check_internal(event: CloudEvent, record: "SQSRecord", allowed: tuple[str, ...]) -> None:
    if event.source not in allowed:
        raise UntrustedSource(
            f"{event.type} may come from {' or '.join(allowed)} only: if producers publish it, "
            "declare it in external= of the consumer's declaration in the CDK app"
        )
    # A subscription's filter reads the attribute, and the handler is chosen by the body. With the
    # attribute of an external type, a producer could otherwise get any body delivered.
    routed = _routed(record)
    if routed is not None and routed.get("stringValue") != event.type:
        raise UntrustedSource(
            f"the message's attribute `{EVENT_TYPE_ATTRIBUTE}` is not {event.type}: it was "
            "delivered for another type, so it does not come from the relay"
        )


def _routed(record: "SQSRecord") -> Mapping[str, Any] | None:
    """Return the type attribute of a message as the topic delivered it, even after a redrive."""
    attributes: Mapping[str, Any] = record.raw_event.get("messageAttributes") or {}
    if EVENT_TYPE_ATTRIBUTE in attributes:
        found: Mapping[str, Any] = attributes[EVENT_TYPE_ATTRIBUTE]
        return found
    kept = text_of(attributes, DeadLetter.ATTRIBUTES)
    return None if kept is None else restored(kept).get(EVENT_TYPE_ATTRIBUTE)
