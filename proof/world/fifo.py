"""SQS FIFO queues and SNS FIFO topics: the order of each group, and five minutes of memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from proof.world.errors import ServiceError
from proof.world.messages import Message
from proof.world.queues import Queue

WINDOW_SECONDS = 5 * 60
"""The time within which a message with a known deduplication id is dropped."""

Sent = tuple[str, str]
"""A message group, and a deduplication id within it."""


def sent_as(grouping: Mapping[str, str]) -> Sent:
    """Return the message group and the deduplication id of a message.

    Raises:
        ServiceError: one of them is missing.
    """
    try:
        return grouping["MessageGroupId"], grouping["MessageDeduplicationId"]
    except KeyError:
        raise ServiceError("MissingParameter") from None


@dataclass(slots=True)
class FifoQueue(Queue):
    """A FIFO queue: it delivers each message group in its order, one receive at a time.

    Attributes:
        sent: the last message of each group and deduplication id.
    """

    sent: dict[Sent, Message] = field(default_factory=dict)

    def add(self, message: Message) -> None:
        """Add a message, under the next sequence number."""
        message.number = len(self.ever) + 1
        # Without arguments, `super` does not find the class: `slots=True` has made another one.
        super(FifoQueue, self).add(message)

    def known(self, grouping: Mapping[str, str], now: float) -> Message | None:
        """Return the message with this deduplication id that was sent within five minutes.

        Raises:
            ServiceError: there is no message group, or no deduplication id.
        """
        message = self.sent.get(sent_as(grouping))
        return message if message and now - message.sent_at < WINDOW_SECONDS else None

    def remember(self, grouping: Mapping[str, str], message: Message) -> None:
        """Note under which deduplication id a message was sent."""
        self.sent[sent_as(grouping)] = message

    def has_visible(self, now: float) -> bool:
        """Tell whether there is a message to receive."""
        return bool(self.deliverable(now))

    def receive(self, count: int, now: float, visibility: float | None = None) -> list[Message]:
        """Receive messages in the order of each group."""
        received: list[Message] = []
        for message in self.deliverable(now):
            if len(received) < count:
                received += self.receive_these([message], now, visibility)
        return received

    def deliverable(self, now: float) -> list[Message]:
        """Return the messages of all groups of which none is in flight, in order."""
        waiting = self.waiting
        locked = {message.group for message in waiting if message.visible_at > now}
        return [message for message in waiting if message.group not in locked]

    def first_of_groups(self, messages: list[Message]) -> list[Message]:
        """Return the first of these messages of each group."""
        first: dict[str | None, Message] = {}
        for message in messages:
            first.setdefault(message.group, message)
        return [*first.values()]

    def early(self, message: Message, at: float) -> None:
        """Let the visibility timeouts of a message's group end at a time."""
        for each in self.waiting:
            if each.group == message.group and each.receives:
                each.visible_at = at
