"""Topics: the standard topic and the FIFO topic, and the order of the events for the latter."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from once.errors import Unpublishable
from once.events.outgoing import OutgoingEvent
from once.outbox._sns_publisher import Publisher, Unpublished
from once.settings import RelaySettings

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient


class Topics:
    """Publishes each event to the topic of its type.

    Args:
        client: an SNS client.
        settings: the topics, and the ordered types.
    """

    def __init__(self, client: "SNSClient", settings: RelaySettings) -> None:
        self._ordered_types = settings.ordered_types
        self._standard = Publisher(client, settings.topic_arn)
        self._ordered = Publisher(client, settings.ordered_topic_arn or "", is_fifo=True)

    def next_of(self, events: Sequence[OutgoingEvent]) -> list[OutgoingEvent]:
        """Return the events that may be published together: one of each ordered message group.

        SNS may take a later event of a batch and refuse an earlier one, so that two of one group
        in a batch could change places.
        """
        groups: set[str | None] = set()
        going = []
        for event in events:
            if not self._is_ordered(event):
                going.append(event)
            elif event.group not in groups:
                groups.add(event.group)
                going.append(event)
        return going

    def publish(self, events: Sequence[OutgoingEvent]) -> list[Unpublished]:
        """Try once to publish each event; return those that are not known to be published."""
        standard = [event for event in events if not self._is_ordered(event)]
        ordered = [event for event in events if self._is_ordered(event)]
        return self._standard.publish(standard) + self._ordered.publish(ordered)

    def refusal(self, failure: Unpublished) -> Unpublishable:
        """Return the error of an event that its topic refuses for good."""
        text = f"the topic refuses {failure.event.type}: {failure.error}"
        if not self._is_ordered(failure.event):
            return Unpublishable(text)
        return Unpublishable(f"{text}; the later events of its message group are published")

    def _is_ordered(self, event: OutgoingEvent) -> bool:
        return event.type in self._ordered_types


def remaining(
    events: Sequence[OutgoingEvent],
    going: Sequence[OutgoingEvent],
    failures: Sequence[Unpublished],
) -> list[OutgoingEvent]:
    """Return the events that are still to be published, in their order.

    Args:
        events: the events, in the order of their commits.
        going: those that were just sent.
        failures: those of `going` that must be sent again.
    """
    done = {event.id for event in going} - {failure.event.id for failure in failures}
    return [event for event in events if event.id not in done]
