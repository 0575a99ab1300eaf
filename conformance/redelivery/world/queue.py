"""The source queue and its dead-letter queue, as an SQS mapping of Lambda reads them."""

import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from redelivery.boundary.invocation import FIFO_WINDOW_SECONDS
from redelivery.samples import Message
from redelivery.subject import Subject
from redelivery.world.resources import ACCOUNT, DLQ, REGION, SOURCE, backend, queue_name

_LONGEST_DELAY_SECONDS = 12 * 60 * 60
"""The longest visibility timeout of SQS."""

_LARGEST_RECEIVE = 10


class SourceQueue:
    """The queue that the function consumes."""

    def __init__(self, subject: Subject, wait: Callable[[float], object]) -> None:
        self._subject, self._wait, self._sqs = subject, wait, backend("sqs")
        self._name, self._dlq = queue_name(subject, SOURCE), queue_name(subject, DLQ)
        self._ids: dict[str, str] = {}
        self._outstanding = 0
        self._accepted: dict[str, tuple[float, str]] = {}

    def send(self, message: Message, *, as_id: str = "") -> str:
        """Send a message, and return its id. A FIFO queue drops a copy within five minutes.

        With `as_id`, it is another delivery of an earlier message.
        """
        since, known = self._accepted.get(message.body, (0.0, ""))
        if self._subject.fifo and time.time() - since < FIFO_WINDOW_SECONDS:
            return known
        digest = hashlib.sha256(message.body.encode()).hexdigest()
        fifo = {"group_id": message.group or "group", "deduplication_id": digest}
        sent = self._sqs.send_message(
            self._name,
            message.body,
            message_attributes=dict(message.attributes),
            **(fifo if self._subject.fifo else {}),
        )
        sent.group_id = sent.group_id or message.group or None  # a standard queue may have groups
        self._outstanding += 1
        self._ids[sent.id] = as_id or sent.id
        self._accepted[message.body] = time.time(), self._ids[sent.id]
        return self._ids[sent.id]

    def receive(self) -> list[dict[str, Any]]:
        """Return the visible messages as the records of one batch."""
        most = min(self._subject.batch_size, _LARGEST_RECEIVE)
        found = self._sqs.receive_message(
            self._name, most, 0, self._subject.visibility_seconds, ["All"]
        )
        return [self._record(message) for message in found]

    def receive_later(self) -> list[dict[str, Any]]:
        """Let time pass until a message is visible; return none if the queue is empty.

        The function may have deleted messages itself, so that fewer remain than were sent.
        """
        queue = self._sqs.get_queue(self._name)
        seconds: float = self._subject.visibility_seconds + 1
        while queue._messages and seconds <= _LONGEST_DELAY_SECONDS * 2:
            self._wait(seconds)
            if records := self.receive():
                return records
            seconds *= 2
        return []

    def delete(self, records: Sequence[dict[str, Any]]) -> None:
        """Delete what the function has acknowledged."""
        self._outstanding -= len(records)
        for record in records:
            self._sqs.delete_message(self._name, record["receiptHandle"])

    @property
    def is_settled(self) -> bool:
        """Whether every message that was sent has been acknowledged."""
        return self._outstanding == 0

    def left(self) -> list[str]:
        """Return the bodies that are still in the queue."""
        self._wait(_LONGEST_DELAY_SECONDS)
        return [record["body"] for record in self.receive()]

    def dead_letters(self) -> list[str]:
        """Return the bodies in the dead-letter queue."""
        return [message.body for message in self._sqs.get_queue(self._dlq)._messages]

    def _record(self, message: Any) -> dict[str, Any]:
        attributes = {
            "SenderId": message.sender_id,
            "SentTimestamp": message.sent_timestamp,
            "ApproximateReceiveCount": message.approximate_receive_count,
            "ApproximateFirstReceiveTimestamp": message.approximate_first_receive_timestamp,
            "MessageDeduplicationId": message.deduplication_id,
            "MessageGroupId": message.group_id,
            "SequenceNumber": message.sequence_number,
        }
        return {
            "messageId": self._ids.get(message.id, message.id),
            "receiptHandle": message.receipt_handle,
            "body": message.body,
            "attributes": {k: str(v) for k, v in attributes.items() if v is not None},
            "messageAttributes": {  # in an event, the fields' names begin with a small letter
                name: {field[0].lower() + field[1:]: entry for field, entry in value.items()}
                for name, value in message.message_attributes.items()
            },
            "md5OfBody": message.body_md5,
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self._name}",
            "awsRegion": REGION,
        }


def failed_ids(answer: Any, records: list[dict[str, Any]], *, partial: bool) -> Collection[str]:
    """Return the ids of the messages that come again.

    With `ReportBatchItemFailures`, an empty or absent list means success, and an answer that is
    malformed or names an unknown message means that the whole batch failed:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
    """
    everything = [record["messageId"] for record in records]
    failures = answer.get("batchItemFailures") if isinstance(answer, Mapping) else None
    if not partial or not failures:
        return ()
    named: list[Any] = [
        failure.get("itemIdentifier") if isinstance(failure, Mapping) else None
        for failure in (failures if isinstance(failures, list) else [None])
    ]
    return named if all(name in everything for name in named) else everything
