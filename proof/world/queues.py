"""SQS and SNS: standard and FIFO queues, and the topics that send to them.

A standard queue delivers at least once and in any order. A FIFO queue delivers each message group
in its order, one receive at a time, and drops for five minutes what was sent before.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from once.names import DeadLetterAttribute
from proof.world.calls import ServiceError
from proof.world.tasks import Process

NO_GROUPING: Mapping[str, str] = {}
Sent = tuple[str, str]
"""A message group, and a deduplication id within it."""

_WINDOW_SECONDS = 5 * 60
"""The time within which a message with a known deduplication id is dropped."""
_MAX_ENTRIES = 10
_WASTED_RECEIVES = 2
"""Receives after the first, while a function is throttled."""


@dataclass(slots=True)
class Message:
    """A message of a queue; times are in seconds since the epoch, the newest handle is the last.

    A standard queue may deliver a deleted message again. `number` is the place in a FIFO queue.
    """

    id: str
    body: str
    attributes: Mapping[str, Any]
    sent_at: float
    visible_at: float
    first_received_at: float = 0.0
    handles: list[str] = field(default_factory=list)
    deleted: bool = False
    group: str | None = None
    number: int | None = None
    receivers: list[Process] = field(default_factory=list, repr=False)

    @property
    def receives(self) -> int:
        """The number of receives."""
        return len(self.handles)

    @property
    def reason(self) -> str:
        """The reason of a dead letter; empty if SQS itself has moved it."""
        return str(self.attributes.get(DeadLetterAttribute.REASON, {}).get("StringValue", ""))

    def hide(self, until: float, receives: int = 1) -> None:
        """Count receives, and hide the message until a time."""
        for _ in range(receives):
            self.handles.append(f"{self.id}.{self.receives + 1}")
        self.visible_at = until


@dataclass(slots=True)
class Queue:
    """A queue, which is a FIFO queue if its name ends with `.fifo`.

    Attributes:
        visibility: visibility timeout in seconds.
        most: number of receives after which a message moves to `dead_letters`.
        messages: every message by id, also deleted ones.
        ever: every message, in order of arrival.
        sent: of a FIFO queue, the last message of each group and deduplication id.
    """

    name: str
    visibility: float = 30.0
    most: int | None = None
    dead_letters: "Queue | None" = None
    messages: dict[str, Message] = field(default_factory=dict)
    ever: list[Message] = field(default_factory=list)
    sent: dict[Sent, Message] = field(default_factory=dict)

    @property
    def is_fifo(self) -> bool:
        """Whether it delivers each message group in its order, one receive at a time."""
        return self.name.endswith(".fifo")

    @property
    def waiting(self) -> list[Message]:
        """The messages that are not deleted, visible or not."""
        return [message for message in self.messages.values() if not message.deleted]

    def deliverable(self, now: float) -> list[Message]:
        """Return the messages that a receive may return, in their order."""
        visible = [m for m in self.messages.values() if m.visible_at <= now and not m.deleted]
        if not visible or not self.is_fifo:
            return visible
        locked = {each.group for each in self.waiting if each.visible_at > now}
        return [each for each in visible if each.group not in locked]

    def first_of_groups(self, messages: list[Message]) -> list[Message]:
        """Return the messages that a receive may begin with; on a standard queue any."""
        first: dict[str | None, Message] = {}
        for message in messages:
            first.setdefault(message.group if self.is_fifo else message.id, message)
        return [*first.values()]

    def receive(self, count: int, now: float, visibility: float | None = None) -> list[Message]:
        """Receive visible messages; one with too many receives moves to the dead letters."""
        received: list[Message] = []
        for message in self.deliverable(now):
            if len(received) < count:
                received += self.receive_these([message], now, visibility)
        return received

    def receive_these(
        self, messages: Iterable[Message], now: float, visibility: float | None = None
    ) -> list[Message]:
        """Receive these messages; one with too many receives moves to the dead letters."""
        received: list[Message] = []
        for message in messages:
            if message.receives >= (self.most or math.inf) and self.dead_letters is not None:
                message.deleted = True
                moved = Message(message.id, message.body, message.attributes, message.sent_at, now)
                moved.group = message.group
                self.dead_letters.add(moved)
                continue
            message.first_received_at = message.first_received_at if message.receives else now
            message.hide(now + (self.visibility if visibility is None else visibility))
            received.append(message)
        return received

    def waste(self, messages: Iterable[Message], now: float) -> None:
        """Add further receives to messages, as while their function is throttled."""
        for message in messages:
            message.hide(now + (1 + _WASTED_RECEIVES) * self.visibility, _WASTED_RECEIVES)

    def early(self, message: Message, at: float) -> None:
        """Let the visibility timeouts of a received message and of its group end at a time."""
        group = self.waiting if self.is_fifo else ()
        for each in (message, *(m for m in group if m.group == message.group and m.receives)):
            each.visible_at = at

    def add(self, message: Message) -> None:
        """Add a message, on a FIFO queue under the next sequence number."""
        self.messages[message.id] = message
        self.ever.append(message)
        message.number = len(self.ever) if self.is_fifo else None

    def by_handle(self, handle: str) -> Message:
        """Return the message of a receipt handle, which may be stale.

        Raises:
            ServiceError: there is no such message.
        """
        message = self.messages.get(handle.rpartition(".")[0])
        if message is None or handle not in message.handles:
            raise ServiceError("ReceiptHandleIsInvalid")
        return message

    def delete(self, handle: str) -> None:
        """Delete a message. A stale handle deletes nothing, and is no error."""
        message = self.by_handle(handle)
        if handle == message.handles[-1]:
            message.deleted = True


def _sent_as(grouping: Mapping[str, str]) -> Sent:
    return grouping["MessageGroupId"], grouping["MessageDeduplicationId"]


class Queues:
    """All queues, by URL. `deleted` is called with each message that a call is about to delete."""

    def __init__(self, clock: Callable[[], float], queues: Mapping[str, Queue]) -> None:
        self._clock = clock
        self._queues = queues
        self._sent = 0
        self.deleted: Callable[[Queue, Message], object] = lambda *_: None

    def send(
        self,
        queue: Queue,
        body: str,
        attributes: Mapping[str, Any],
        grouping: Mapping[str, str] = NO_GROUPING,
    ) -> Message:
        """Send a message, and return it. On a FIFO queue it may be one that was sent before."""
        now, sent = self._clock(), _sent_as(grouping) if queue.is_fifo else None
        known = queue.sent.get(sent) if sent else None
        if known and now - known.sent_at < _WINDOW_SECONDS:
            return known
        self._sent += 1
        message = Message(f"m{self._sent}", body, attributes, sent_at=now, visible_at=now)
        message.group = grouping.get("MessageGroupId")
        queue.add(message)
        if sent:
            queue.sent[sent] = message
        return message

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute an operation, and return its answer.

        Raises:
            ServiceError: the error response.
        """
        queue = self._queues[request["QueueUrl"]]
        single = {
            "SendMessage": self._send,
            "ReceiveMessage": self._receive,
            "DeleteMessage": self._delete,
            "ChangeMessageVisibility": self._hide,
        }
        execute = single[operation.removesuffix("Batch")]
        if not operation.endswith("Batch"):
            return execute(queue, request)
        entries = request["Entries"]
        if not 0 < len(entries) <= _MAX_ENTRIES:
            raise ServiceError("AWS.SimpleQueueService.TooManyEntriesInBatchRequest")
        return {"Successful": [{"Id": e["Id"], **execute(queue, e)} for e in entries]}

    def _send(self, queue: Queue, request: Mapping[str, Any]) -> dict[str, Any]:
        attributes = request.get("MessageAttributes", {})
        message = self.send(queue, request["MessageBody"], attributes, request)
        return {"MessageId": message.id, "MD5OfMessageBody": _md5(message.body)}

    def _receive(self, queue: Queue, request: Mapping[str, Any]) -> dict[str, Any]:
        count = request.get("MaxNumberOfMessages", 1)
        found = queue.receive(count, self._clock(), request.get("VisibilityTimeout"))
        return {"Messages": [*map(received, found)]} if found else {}

    def _delete(self, queue: Queue, request: Mapping[str, Any]) -> dict[str, Any]:
        self.deleted(queue, queue.by_handle(request["ReceiptHandle"]))
        queue.delete(request["ReceiptHandle"])
        return {}

    def _hide(self, queue: Queue, request: Mapping[str, Any]) -> dict[str, Any]:
        message = queue.by_handle(request["ReceiptHandle"])
        if message.deleted or message.visible_at <= self._clock():
            raise ServiceError("MessageNotInflight")
        message.visible_at = self._clock() + request["VisibilityTimeout"]
        return {}


Subscribers = Mapping[str, Mapping[str, Sequence[Queue]]]
"""The subscribed queues by topic and event type."""


class Topics:
    """All topics, by ARN. One whose ARN ends with `.fifo` is a FIFO topic.

    Attributes:
        refused: the bodies that a topic refuses for good, and with them their whole batch.
    """

    def __init__(
        self, queues: Queues, subscribers: Subscribers, clock: Callable[[], float]
    ) -> None:
        self._queues = queues
        self._subscribers = subscribers
        self._clock = clock
        self._taken: dict[tuple[str, Sent], float] = {}
        self.refused: set[str] = set()

    def answer(self, request: Mapping[str, Any], *, half: bool = False) -> dict[str, Any]:
        """Publish a batch, or only its second half, and return the result of each entry.

        Raises:
            ServiceError: an entry is refused.
        """
        entries = request["PublishBatchRequestEntries"]
        if not self.refused.isdisjoint(entry["Message"] for entry in entries):
            raise ServiceError("InvalidParameter")
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
        """Publish one message to a topic."""
        now = self._clock()
        if topic.endswith(".fifo"):
            sent = topic, _sent_as(grouping)
            if now - self._taken.get(sent, -math.inf) < _WINDOW_SECONDS:
                return
            self._taken[sent] = now
        attributes = {"type": {"DataType": "String", "StringValue": event_type}}
        for queue in self._subscribers[topic].get(event_type, ()):
            self._queues.send(queue, body, attributes, grouping)


def received(message: Message) -> dict[str, Any]:
    """Return a message in the form of ReceiveMessage."""
    return {
        "MessageId": message.id,
        "ReceiptHandle": message.handles[-1],
        "Body": message.body,
        "MD5OfBody": _md5(message.body),
        "Attributes": {
            "ApproximateReceiveCount": str(message.receives),
            "SentTimestamp": str(int(message.sent_at * 1000)),
            "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at * 1000)),
            **({} if message.group is None else {"MessageGroupId": message.group}),
            **({} if message.number is None else {"SequenceNumber": str(message.number)}),
        },
        **({"MessageAttributes": message.attributes} if message.attributes else {}),
    }


def _md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
