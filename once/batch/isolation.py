"""Isolation: a message that was received often is read and run alone, from a separate queue.

A message that ends the process would use up the receives of its whole batch (ADR 0001). It is moved
before any body is read. Messages that cannot be moved are read and run one by one; before that, the
finished messages of the batch are deleted at SQS.

A message is sent to the isolation queue before it is deleted. If the function ends in between,
there are two copies, and the dedup record lets one of them commit.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.batch.message import Message
from once.errors import summary_of
from once.failures.quarantine import batches_by_size, first_seen, lineage, size_of, text, whole
from once.intake.original_message import OriginalMessage, trace_header
from once.intake.reader import Delivery
from once.names import DeadLetterAttribute, Limits
from once.runtime.deadline import Deadline
from once.settings import Settings

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_sqs import SQSClient

_NO_ANSWER = (ClientError, BotoCoreError, ResponseParserError)


class _Copy(NamedTuple):
    """A message, its entry of SendMessageBatch without the id, and its bytes as SQS counts them."""

    message: Message
    entry: dict[str, Any]
    size: int


class Isolation:
    """Moves messages of one consumer to its isolation queue.

    Without an isolation queue among its settings, no message is moved.
    """

    def __init__(self, client: "SQSClient", settings: Settings, logger: "Logger") -> None:
        self._client = client
        self._url = settings.isolation_queue_url or ""
        self._source_url = settings.queue_url
        self._logger = logger

    def must_move(self, delivery: Delivery, *, alone: bool) -> bool:
        """Return whether an often received message is moved before any body of its batch is read.

        A message that is alone in its batch may run. If its receives are used up, it is moved
        nevertheless: other messages, in the batches of earlier deliveries, may be the cause.
        """
        return (
            (delivery.is_spent or not alone)
            and bool(self._url)
            and not delivery.is_isolated
            and delivery.ordered_group is None  # a message group would lose its order
        )

    def move(self, messages: Sequence[Message], deadline: Deadline) -> list[Message]:
        """Send messages to the isolation queue, delete them from theirs, and return the moved.

        The others stay in their queue: SQS refused them or did not answer, or the time was up.
        """
        moved: list[Message] = []
        for copies in batches_by_size(filter(None, map(_copy, messages)), lambda copy: copy.size):
            if deadline.spent:
                break
            sent = self._sent(copies)
            self.acknowledge([message.delivery for message in sent], deadline)
            moved += sent
        return moved

    def acknowledge(self, deliveries: Sequence[Delivery], deadline: Deadline) -> None:
        """Delete the finished messages of a batch now: the function may end before it answers."""
        for start in range(0, len(deliveries), Limits.QUEUE_BATCH):
            if not deadline.hurried:
                self._delete(deliveries[start : start + Limits.QUEUE_BATCH])

    def _sent(self, copies: Sequence[_Copy]) -> list[Message]:
        entries: Any = [{"Id": str(number), **copy.entry} for number, copy in enumerate(copies)]
        try:
            answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        except _NO_ANSWER as error:
            self._warn("not isolated", len(copies), summary_of(error))
            return []
        if refused := answer.get("Failed"):
            self._warn("not isolated", len(refused), refused[0]["Code"])
        return [copies[int(sent["Id"])].message for sent in answer.get("Successful", [])]

    def _delete(self, deliveries: Sequence[Delivery]) -> None:
        url = self._url if deliveries[0].is_isolated else self._source_url
        entries: Any = [
            {"Id": str(number), "ReceiptHandle": delivery.record["receiptHandle"]}
            for number, delivery in enumerate(deliveries)
        ]
        try:
            self._client.delete_message_batch(QueueUrl=url, Entries=entries)
        except _NO_ANSWER as error:
            self._warn("finished, and not deleted yet", len(deliveries), summary_of(error))

    def _warn(self, what: str, messages: int, error: str) -> None:
        self._logger.warning(what, extra={"messages": messages, "error": error})


def _copy(message: Message) -> _Copy | None:
    delivery = message.delivery
    facts = {
        DeadLetterAttribute.FIRST_SEEN: text(first_seen(delivery)),
        DeadLetterAttribute.LINEAGE: text(lineage(delivery)),
    }
    found = whole(OriginalMessage.of(delivery.record), facts)
    if found is None:
        return None
    body, attributes = found
    entry: dict[str, Any] = {
        "MessageBody": body,
        "MessageAttributes": attributes,
        **trace_header(delivery.record["attributes"]),
    }
    if delivery.group is not None:
        entry["MessageGroupId"] = delivery.group
    return _Copy(message, entry, size_of(body, attributes))
