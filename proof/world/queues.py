"""SQS: standard queues, at least once and in any order."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from proof.world.errors import ServiceError

_MOST = 10
_IN_VAIN = 2
"""Receives after the first, while a function is throttled."""


@dataclass(slots=True)
class Message:
    """A message of a queue; times are in seconds since the epoch.

    `handles` are its receipt handles, the newest last. `deleted` is what was asked for; a standard
    queue may deliver it again all the same.
    """

    id: str
    body: str
    attributes: Mapping[str, Any]
    sent_at: float
    visible_at: float
    first_received_at: float = 0.0
    handles: list[str] = field(default_factory=list)
    deleted: bool = False

    @property
    def receives(self) -> int:
        """How often it was received."""
        return len(self.handles)


@dataclass(slots=True)
class Queue:
    """A queue, its visibility timeout in seconds, and where its messages go after `most` receives.

    Attributes:
        ever: every body that was ever sent to it.
    """

    name: str
    visibility: float = 30.0
    most: int | None = None
    dead_letters: "Queue | None" = None
    messages: dict[str, Message] = field(default_factory=dict)
    ever: list[Message] = field(default_factory=list)

    @property
    def waiting(self) -> list[Message]:
        """What is in it, visible or not."""
        return [message for message in self.messages.values() if not message.deleted]

    def receive(self, count: int, now: float, visibility: float | None = None) -> list[Message]:
        """Receive messages; what was received too often already moves to the dead letters."""
        received: list[Message] = []
        for message in self.waiting:
            if message.visible_at <= now and len(received) < count:
                received += self.receive_these([message], now, visibility)
        return received

    def receive_these(
        self, messages: Iterable[Message], now: float, visibility: float | None = None
    ) -> list[Message]:
        """Receive these messages; those received too often move to the dead letters."""
        received: list[Message] = []
        for message in messages:
            if message.receives >= (self.most or math.inf) and self.dead_letters is not None:
                self._move(message, self.dead_letters, now)
                continue
            message.visible_at = now + (self.visibility if visibility is None else visibility)
            message.first_received_at = message.first_received_at if message.receives else now
            message.handles.append(f"{message.id}.{message.receives + 1}")
            received.append(message)
        return received

    def waste(self, messages: Iterable[Message], now: float) -> None:
        """Spend further receives of messages, whose function is throttled all the while."""
        for message in messages:
            for _ in range(_IN_VAIN):
                message.handles.append(f"{message.id}.{message.receives + 1}")
            message.visible_at = now + (1 + _IN_VAIN) * self.visibility

    def add(self, message: Message) -> None:
        """Take a message."""
        self.messages[message.id] = message
        self.ever.append(message)

    def by_handle(self, handle: str) -> Message:
        """Return the message of a receipt handle, however old.

        Raises:
            ServiceError: there is no such message.
        """
        message = self.messages.get(handle.rpartition(".")[0])
        if message is None or handle not in message.handles:
            raise ServiceError("ReceiptHandleIsInvalid")
        return message

    def delete(self, handle: str) -> None:
        """Delete a message. A stale handle is answered with success, and deletes nothing."""
        message = self.by_handle(handle)
        if handle == message.handles[-1]:
            message.deleted = True

    def _move(self, message: Message, to: "Queue", now: float) -> None:
        message.deleted = True
        to.add(Message(message.id, message.body, message.attributes, message.sent_at, now))


class Queues:
    """Every queue of the deployment, by its URL.

    Args:
        clock: the time, in seconds since the epoch.
        queues: by URL.

    Attributes:
        deleted: told of each message that a call is about to delete.
    """

    def __init__(self, clock: Callable[[], float], queues: Mapping[str, Queue]) -> None:
        self._clock = clock
        self._queues = queues
        self._sent = 0
        self.deleted: Callable[[Queue, Message], object] = lambda *_: None

    def send(self, queue: Queue, body: str, attributes: Mapping[str, Any]) -> Message:
        """Send a message, and return it."""
        self._sent += 1
        now = self._clock()
        message = Message(f"m{self._sent}", body, attributes, sent_at=now, visible_at=now)
        queue.add(message)
        return message

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do an operation, and return its answer.

        Raises:
            ServiceError: it is refused.
        """
        queue = self._queues.get(request["QueueUrl"])
        if queue is None:
            raise ServiceError("AWS.SimpleQueueService.NonExistentQueue")
        match operation:
            case "SendMessage":
                return self._send(queue, request)
            case "ReceiveMessage":
                count = request.get("MaxNumberOfMessages", 1)
                found = queue.receive(count, self._clock(), request.get("VisibilityTimeout"))
                return {"Messages": [*map(received, found)]} if found else {}
            case "ChangeMessageVisibility":
                return self._hide(queue, request)
            case "SendMessageBatch" | "DeleteMessageBatch" | "ChangeMessageVisibilityBatch":
                return {"Successful": [*self._each(queue, operation, request["Entries"])]}
        raise ServiceError("InvalidAction")

    def _each(self, queue: Queue, operation: str, entries: Any) -> Iterator[dict[str, Any]]:
        if not 0 < len(entries) <= _MOST:
            raise ServiceError("AWS.SimpleQueueService.TooManyEntriesInBatchRequest")
        one = {
            "SendMessageBatch": self._send,
            "DeleteMessageBatch": self._delete,
            "ChangeMessageVisibilityBatch": self._hide,
        }[operation]
        for entry in entries:
            yield {"Id": entry["Id"], **one(queue, entry)}

    def _send(self, queue: Queue, request: Mapping[str, Any]) -> dict[str, Any]:
        message = self.send(queue, request["MessageBody"], request.get("MessageAttributes", {}))
        return {"MessageId": message.id, "MD5OfMessageBody": _md5(message.body)}

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
    """Return a message as ReceiveMessage gives it."""
    return {
        "MessageId": message.id,
        "ReceiptHandle": message.handles[-1],
        "Body": message.body,
        "MD5OfBody": _md5(message.body),
        "Attributes": {
            "ApproximateReceiveCount": str(message.receives),
            "SentTimestamp": str(int(message.sent_at * 1000)),
            "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at * 1000)),
        },
        **({"MessageAttributes": message.attributes} if message.attributes else {}),
    }


def _md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
