"""SNS's envelope: what was published is a text in `Message`.

SNS keeps the id of a message when it delivers it again. A producer that calls Publish again gets
another id.
"""

from dataclasses import dataclass

import msgspec

from once.deadline import Deadline
from once.errors import InvalidEvent, NoKey
from once.events.cloud_event import CloudEvent, read_event
from once.events.strict_json import parse
from once.intake._plain_json import declared_type, parse_object
from once.source import SnsSource


class _Notification(msgspec.Struct, rename="pascal"):
    type: str
    message_id: str
    topic_arn: str
    message: str
    timestamp: str


@dataclass(frozen=True, slots=True)
class SnsAdapter:
    """Reads the messages of a topic without raw delivery."""

    source: SnsSource

    def __call__(
        self, body: str, *, max_bytes: int, deadline: Deadline | None = None
    ) -> CloudEvent:
        """Return the event in a body; see `once.intake.adapter.Adapter`."""
        notification = _notification(body, max_bytes, deadline)
        if not self.source.is_plain:
            return read_event(notification.message, max_bytes=max_bytes, deadline=deadline)
        data = parse_object(notification.message, max_bytes=max_bytes, deadline=deadline)
        return CloudEvent(
            id=notification.message_id,
            source=notification.topic_arn,
            type=declared_type(self.source, data),
            time=notification.timestamp,
            data=data,
        )


def _notification(body: str, max_bytes: int, deadline: Deadline | None) -> _Notification:
    try:
        found = msgspec.convert(parse(body, max_bytes=max_bytes, deadline=deadline), _Notification)
    except msgspec.ValidationError as error:
        raise InvalidEvent(
            f"not a notification of SNS: {error}. If its subscription has raw delivery, turn that "
            "off"
        ) from None
    if found.type != "Notification":
        raise InvalidEvent(
            f"a message of SNS about a subscription ({found.type}), and no event: confirm it by "
            "the SubscribeURL in its body, or remove the subscription"
        )
    if not found.message_id.strip():
        raise NoKey("the notification has no MessageId: SNS sets one on every message")
    return found
