"""SQS: standard queues, which deliver at least once and in any order."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proof.world.errors import ServiceError
from proof.world.messages import Message

NO_GROUPING: Mapping[str, str] = {}

_MAX_ENTRIES = 10
_WASTED_RECEIVES = 2
"""Receives after the first, while a function is throttled."""


@dataclass(slots=True)
class Queue:
    """A queue.

    Attributes:
        visibility: visibility timeout in seconds.
        most: number of receives after which a message moves to `dead_letters`.
        messages: every message by id, also deleted ones.
        ever: every message, in order of arrival.
    """

    name: str
    visibility: float = 30.0
    most: int | None = None
    dead_letters: "Queue | None" = None
    messages: dict[str, Message] = field(default_factory=dict)
    ever: list[Message] = field(default_factory=list)

    @property
    def waiting(self) -> list[Message]:
        """The messages that are not deleted, visible or not."""
        return [message for message in self.messages.values() if not message.deleted]

    def has_visible(self, now: float) -> bool:
        """Tell whether there is a message to receive."""
        for message in self.messages.values():
            if not message.deleted and message.visible_at <= now:
                return True
        return False

    def receive(self, count: int, now: float, visibility: float | None = None) -> list[Message]:
        """Receive visible messages; one with too many receives moves to the dead letters."""
        received: list[Message] = []
        for message in self.waiting:
            if message.visible_at <= now and len(received) < count:
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
            message.visible_at = now + (self.visibility if visibility is None else visibility)
            message.first_received_at = message.first_received_at if message.receives else now
            message.add_handle()
            received.append(message)
        return received

    def waste(self, messages: Iterable[Message], now: float) -> None:
        """Add further receives to messages, as while their function is throttled."""
        for message in messages:
            for _ in range(_WASTED_RECEIVES):
                message.add_handle()
            message.visible_at = now + (1 + _WASTED_RECEIVES) * self.visibility

    def deliverable(self, now: float) -> list[Message]:
        """Return the messages that a receive may return, in their order."""
        return [message for message in self.waiting if message.visible_at <= now]

    def first_of_groups(self, messages: list[Message]) -> list[Message]:
        """Return the messages that a receive may begin with; on a standard queue any."""
        return messages

    def known(self, grouping: Mapping[str, str], now: float) -> Message | None:
        """Return the message that this one repeats; a standard queue knows of none."""

    def remember(self, grouping: Mapping[str, str], message: Message) -> None:
        """Note how a message was sent."""

    def early(self, message: Message, at: float) -> None:
        """Let the visibility timeout of a received message end at a time."""
        message.visible_at = at

    def add(self, message: Message) -> None:
        """Add a message."""
        self.messages[message.id] = message
        self.ever.append(message)

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


class Queues:
    """All queues.

    Args:
        clock: returns seconds since the epoch.
        queues: by URL.

    Attributes:
        deleted: called with each message that a call is about to delete.
    """

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
        """Send a message, and return it. On a FIFO queue it may be one that was sent before.

        Raises:
            ServiceError: the queue is a FIFO queue, and the grouping is incomplete.
        """
        now = self._clock()
        if known := queue.known(grouping, now):
            return known
        self._sent += 1
        message = Message(f"m{self._sent}", body, attributes, sent_at=now, visible_at=now)
        message.group = grouping.get("MessageGroupId")
        queue.add(message)
        queue.remember(grouping, message)
        return message

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute an operation, and return its answer.

        Raises:
            ServiceError: the error response.
        """
        queue = self._queues.get(request["QueueUrl"])
        if queue is None:
            raise ServiceError("AWS.SimpleQueueService.NonExistentQueue")
        single = {
            "SendMessage": self._send,
            "ReceiveMessage": self._receive,
            "DeleteMessage": self._delete,
            "ChangeMessageVisibility": self._hide,
        }
        if execute := single.get(operation.removesuffix("Batch")):
            if not operation.endswith("Batch"):
                return execute(queue, request)
            entries = request["Entries"]
            if not 0 < len(entries) <= _MAX_ENTRIES:
                raise ServiceError("AWS.SimpleQueueService.TooManyEntriesInBatchRequest")
            return {"Successful": [{"Id": e["Id"], **execute(queue, e)} for e in entries]}
        raise ServiceError("InvalidAction")

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
