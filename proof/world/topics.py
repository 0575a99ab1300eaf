"""SNS: topics that send each message to every queue that subscribes to its event type."""

from collections.abc import Mapping, Sequence
from typing import Any

from proof.world.queues import Queue, Queues

Subscribers = Mapping[str, Mapping[str, Sequence[Queue]]]
"""The subscribed queues by topic and event type."""


class Topics:
    """All topics, by ARN."""

    def __init__(self, queues: Queues, subscribers: Subscribers) -> None:
        self._queues = queues
        self._subscribers = subscribers

    def answer(self, request: Mapping[str, Any], *, half: bool = False) -> dict[str, Any]:
        """Publish a batch, or only its second half, and return the result of each entry."""
        entries = request["PublishBatchRequestEntries"]
        failures = (len(entries) + 1) // 2 if half else 0
        for entry in entries[failures:]:
            event_type = entry["MessageAttributes"]["type"]["StringValue"]
            self.publish(request["TopicArn"], event_type, entry["Message"])
        failed = {"Code": "InternalError", "SenderFault": False}
        return {
            "Successful": [{"Id": e["Id"], "MessageId": "m"} for e in entries[failures:]],
            "Failed": [{"Id": e["Id"], **failed} for e in entries[:failures]],
        }

    def publish(self, topic: str, event_type: str, body: str) -> None:
        """Publish one message to a topic."""
        attributes = {"type": {"DataType": "String", "StringValue": event_type}}
        for queue in self._subscribers[topic].get(event_type, ()):
            self._queues.send(queue, body, attributes)
