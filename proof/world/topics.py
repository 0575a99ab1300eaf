"""SNS: topics that send each message to every queue that subscribes to its event type."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proof.world.fifo import WINDOW_SECONDS, Sent, sent_as
from proof.world.queues import NO_GROUPING, Queue, Queues

Subscribers = Mapping[str, Mapping[str, Sequence[Queue]]]
"""The subscribed queues by topic and event type."""


class Topics:
    """All topics, by ARN. One whose ARN ends with `.fifo` is a FIFO topic."""

    def __init__(
        self, queues: Queues, subscribers: Subscribers, clock: Callable[[], float]
    ) -> None:
        self._queues = queues
        self._subscribers = subscribers
        self._clock = clock
        self._taken: dict[tuple[str, Sent], float] = {}

    def answer(self, request: Mapping[str, Any], *, half: bool = False) -> dict[str, Any]:
        """Publish a batch, or only its second half, and return the result of each entry."""
        entries = request["PublishBatchRequestEntries"]
        failures = (len(entries) + 1) // 2 if half else 0
        for entry in entries[failures:]:
            event_type = entry["MessageAttributes"]["type"]["StringValue"]
            self.publish(request["TopicArn"], event_type, entry["Message"], entry)
        failed = {"Code": "InternalError", "SenderFault": False}
        return {
            "Successful": [{"Id": e["Id"], "MessageId": "m"} for e in entries[failures:]],
            "Failed": [{"Id": e["Id"], **failed} for e in entries[:failures]],
        }

    def publish(
        self,
        topic: str,
        event_type: str,
        body: str,
        grouping: Mapping[str, str] = NO_GROUPING,
    ) -> None:
        """Publish one message to a topic.

        Raises:
            ServiceError: the topic is a FIFO topic, and the grouping is incomplete.
        """
        if topic.endswith(".fifo") and self._is_known(topic, sent_as(grouping)):
            return
        attributes = {"type": {"DataType": "String", "StringValue": event_type}}
        for queue in self._subscribers[topic].get(event_type, ()):
            self._queues.send(queue, body, attributes, grouping)

    def _is_known(self, topic: str, sent: Sent) -> bool:
        now, before = self._clock(), self._taken.get((topic, sent))
        if before is not None and now - before < WINDOW_SECONDS:
            return True
        self._taken[topic, sent] = now
        return False
