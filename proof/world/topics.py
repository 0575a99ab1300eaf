"""SNS: topics that send each message to every queue that subscribes to its event type."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proof.world.queues import Queue, Queues

_ENTRY = "PublishBatchRequestEntries.member"

Subscribers = Mapping[str, Mapping[str, Sequence[Queue]]]
"""The subscribed queues by topic and event type."""


class Topics:
    """All topics, by ARN."""

    def __init__(self, queues: Queues, subscribers: Subscribers) -> None:
        self._queues = queues
        self._subscribers = subscribers

    def answer(self, form: Mapping[str, str], *, half: bool = False) -> dict[str, Any]:
        """Publish a batch, or only its second half, and return the result of each entry."""
        entries = [*_entries(form)]
        failures = (len(entries) + 1) // 2 if half else 0
        for entry in entries[failures:]:
            self.publish(form["TopicArn"], entry["type"], entry["body"])
        failed = {"Code": "InternalError", "SenderFault": "false"}
        return {
            "Successful": [{"Id": e["id"], "MessageId": "m"} for e in entries[failures:]],
            "Failed": [{"Id": e["id"], **failed} for e in entries[:failures]],
        }

    def publish(self, topic: str, event_type: str, body: str) -> None:
        """Publish one message to a topic."""
        attributes = {"type": {"DataType": "String", "StringValue": event_type}}
        for queue in self._subscribers[topic].get(event_type, ()):
            self._queues.send(queue, body, attributes)


def _entries(form: Mapping[str, str]) -> Iterator[dict[str, str]]:
    number = 1
    while (start := f"{_ENTRY}.{number}") + ".Id" in form:
        yield {
            "id": form[f"{start}.Id"],
            "body": form[f"{start}.Message"],
            "type": form[f"{start}.MessageAttributes.entry.1.Value.StringValue"],
        }
        number += 1
