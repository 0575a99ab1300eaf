"""The source queue and its dead-letter queue, as an SQS mapping of Lambda reads them."""

import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from redelivery.boundary.call import FIFO_WINDOW_SECONDS
from redelivery.samples import Message
from redelivery.subject import Subject
from redelivery.world.resources import ACCOUNT, DLQ, REGION, SOURCE, Clients, queue_url

_LONGEST_DELAY_SECONDS = 12 * 60 * 60
"""The longest visibility timeout of SQS."""

_LARGEST_RECEIVE = 10


class SourceQueue:
    """The queue that the function consumes."""

    def __init__(self, subject: Subject, clients: Clients, wait: Callable[[float], object]) -> None:
        self._subject, self._sqs, self._wait = subject, clients.sqs, wait
        self._url, self._dlq = queue_url(subject, SOURCE), queue_url(subject, DLQ)
        self._ids: dict[str, str] = {}
        self._outstanding = 0
        self._accepted: dict[str, tuple[float, str]] = {}

    def send(self, message: Message, *, as_id: str = "") -> str:
        """Send a message, and return its id. A FIFO queue drops a copy within five minutes.

        Args:
            message: the message.
            as_id: the id of an earlier message, of which this is another delivery.
        """
        since, known = self._accepted.get(message.body, (0.0, ""))
        if self._subject.fifo and time.time() - since < FIFO_WINDOW_SECONDS:
            return known
        fifo = {
            "MessageGroupId": message.group,
            "MessageDeduplicationId": hashlib.sha256(message.body.encode()).hexdigest(),
        }
        sent = self._sqs.send_message(
            QueueUrl=self._url,
            MessageBody=message.body,
            MessageAttributes=dict(message.attributes),
            **(fifo if self._subject.fifo else {}),
        )
        self._outstanding += 1
        new = str(sent["MessageId"])
        self._ids[new] = as_id or new
        self._accepted[message.body] = time.time(), self._ids[new]
        return self._ids[new]

    def receive(self) -> list[dict[str, Any]]:
        """Return the visible messages as the records of one batch."""
        answer = self._sqs.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=min(self._subject.batch_size, _LARGEST_RECEIVE),
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return [self._record(message) for message in answer.get("Messages", ())]

    def receive_later(self) -> list[dict[str, Any]]:
        """Let time pass until a message is visible; return none if the queue is empty.

        The function may have deleted messages itself, so that fewer remain than were sent.
        """
        seconds: float = self._subject.visibility_seconds + 1
        while self._hidden() and seconds <= _LONGEST_DELAY_SECONDS * 2:
            self._wait(seconds)
            if records := self.receive():
                return records
            seconds *= 2
        return []

    def delete(self, records: Sequence[dict[str, Any]]) -> None:
        """Delete what the function has acknowledged."""
        self._outstanding -= len(records)
        for record in records:
            self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=record["receiptHandle"])

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
        bodies: list[str] = []
        while messages := self._sqs.receive_message(
            QueueUrl=self._dlq, MaxNumberOfMessages=10, VisibilityTimeout=43200
        ).get("Messages"):
            bodies += [message["Body"] for message in messages]
        return bodies

    def _hidden(self) -> bool:
        names = ["ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
        names.append("ApproximateNumberOfMessages")
        found = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=names)
        return any(int(count) for count in found["Attributes"].values())

    def _record(self, message: dict[str, Any]) -> dict[str, Any]:
        name = self._url.rpartition("/")[2]
        return {
            "messageId": self._ids.get(message["MessageId"], message["MessageId"]),
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": {k: str(v) for k, v in message["Attributes"].items()},
            "messageAttributes": {  # in an event, the fields' names begin with a small letter
                name: {field[0].lower() + field[1:]: entry for field, entry in value.items()}
                for name, value in message.get("MessageAttributes", {}).items()
            },
            "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}",
            "awsRegion": REGION,
        }


def failed_ids(answer: Any, records: list[dict[str, Any]], *, partial: bool) -> Collection[str]:
    """Return the ids of the messages that come again.

    With `ReportBatchItemFailures`, an empty or absent list means success, and an answer that is
    malformed or names an unknown message means that the whole batch failed:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html

    Args:
        answer: what the handler returned.
        records: the batch.
        partial: whether the mapping has `ReportBatchItemFailures`.
    """
    everything = {record["messageId"] for record in records}
    failures = answer.get("batchItemFailures") if isinstance(answer, Mapping) else None
    if not partial or not failures:
        return ()
    if not isinstance(failures, list):
        return everything
    named = {_identifier(failure) for failure in failures}
    return named if named <= everything else everything


def _identifier(failure: Any) -> str:
    found = failure.get("itemIdentifier") if isinstance(failure, Mapping) else None
    return found if isinstance(found, str) else ""
