"""Source adapters: turn the body of a message into a CloudEvent, one adapter for each envelope.

A function loads only the adapter of its own source.
"""

from typing import Protocol

from once.deadline import Deadline
from once.errors import OnceError
from once.events.cloud_event import CloudEvent, read_event
from once.source import (
    EventBridgeSource,
    JsonSource,
    S3Source,
    ScheduleSource,
    SnsSource,
    Source,
)


class NoEvent(OnceError):
    """The message is a test of the service that sends the events: acknowledged and counted.

    Remedy: none: it is no event, and nothing is lost.
    """


class Adapter(Protocol):
    """Reads the body of a message."""

    def __call__(
        self, body: str, *, max_bytes: int, deadline: Deadline | None = None
    ) -> CloudEvent:
        """Return the event in a body of at most `max_bytes` bytes, read until the deadline.

        Raises:
            Unparseable, TooLarge, NoKey, InvalidEvent: see `once.events.cloud_event.read_event`.
            UntrustedSource: the event is of another sender than the declared ones.
            NoEvent: the message holds no event.
            OutOfTime: see `once.events.strict_json.parse`.
        """


def adapter_of(source: Source | None) -> Adapter:
    """Return the adapter of a source; without one, that of CloudEvents without an envelope."""
    match source:
        case EventBridgeSource():
            from once.intake._event_bridge import EventBridgeAdapter

            return EventBridgeAdapter(source)
        case S3Source():
            from once.intake.s3_notification import read_notification

            return read_notification
        case SnsSource():
            from once.intake._sns_notification import SnsAdapter

            return SnsAdapter(source)
        case JsonSource():
            from once.intake._plain_json import JsonAdapter

            return JsonAdapter(source)
        case ScheduleSource():
            from once.intake._scheduled_event import read_scheduled_event

            return read_scheduled_event
    return read_event
