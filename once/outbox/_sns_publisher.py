"""Publisher: sends events to an SNS topic in batches, and checks the result of each entry.

SNS answers PublishBatch with HTTP 200 even if some entries of the batch failed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.error_text import summary_of
from once.events.outgoing import OutgoingEvent
from once.schema import EVENT_TYPE_ATTRIBUTE, Limits

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sns.type_defs import (
        MessageAttributeValueTypeDef,
        PublishBatchRequestEntryTypeDef,
    )

_PERMANENT = {
    "InvalidParameter",
    "InvalidParameterValue",
    "ParameterValueInvalid",
    "ValidationError",
    "ValidationException",
    "BatchRequestTooLong",
}
_MAY_PASS = ("Throttl", "KMS", "Authorization", "AccessDenied")
"""Prefixes of codes that SNS marks as `SenderFault` although the event is not the cause."""


@dataclass(frozen=True, slots=True)
class Unpublished:
    """An event that is not known to be published.

    If `permanent`, the topic refuses the event itself, and another attempt cannot succeed.
    """

    event: OutgoingEvent
    error: str
    permanent: bool


class Publisher:
    """Publishes events to one topic.

    Args:
        client: an SNS client.
        topic_arn: the topic.
        is_fifo: whether it is a FIFO topic. The events then need a message group each, and no two
            of them the same.
    """

    def __init__(self, client: "SNSClient", topic_arn: str, *, is_fifo: bool = False) -> None:
        self._client = client
        self._topic_arn = topic_arn
        self._is_fifo = is_fifo

    def publish(self, events: Sequence[OutgoingEvent]) -> list[Unpublished]:
        """Try once to publish each event.

        SNS may refuse a batch without naming the failing event. Such a batch is halved until that
        event is alone. A batch without an answer counts as not published: if it was, consumers
        deduplicate the events of the next attempt.

        Returns:
            Those events that are not known to be published.
        """
        return [event for batch in _batches(events) for event in self._attempt(batch)]

    def _attempt(self, batch: Sequence[OutgoingEvent]) -> list[Unpublished]:
        try:
            answer = self._client.publish_batch(
                TopicArn=self._topic_arn,
                PublishBatchRequestEntries=[self._entry(*each) for each in enumerate(batch)],
            )
        except ClientError as error:
            if error.response["Error"]["Code"] not in _PERMANENT:
                return _all(batch, summary_of(error), permanent=False)
            if len(batch) == 1:
                return _all(batch, summary_of(error), permanent=True)
            half = len(batch) // 2
            return self._attempt(batch[:half]) + self._attempt(batch[half:])
        except (BotoCoreError, ResponseParserError) as error:
            return _all(batch, summary_of(error), permanent=False)
        return list(_refused(batch, answer))

    def _entry(self, number: int, event: OutgoingEvent) -> "PublishBatchRequestEntryTypeDef":
        attribute: MessageAttributeValueTypeDef = {"DataType": "String", "StringValue": event.type}
        entry: PublishBatchRequestEntryTypeDef = {
            "Id": str(number),
            "Message": event.body,
            "MessageAttributes": {EVENT_TYPE_ATTRIBUTE: attribute},
        }
        if event.group is not None:
            entry["MessageGroupId"] = event.group
        if self._is_fifo:
            # Derived from the inbound key: within five minutes SNS itself drops a second publish.
            entry["MessageDeduplicationId"] = event.id
        return entry


def _refused(batch: Sequence[OutgoingEvent], answer: Any) -> Iterator[Unpublished]:
    """Yield the events of entries that did not succeed, failed or not answered."""
    successful = {entry["Id"] for entry in answer.get("Successful", [])}
    failed = {entry["Id"]: entry for entry in answer.get("Failed", [])}
    for number, event in enumerate(batch):
        if str(number) not in successful:
            entry = failed.get(str(number), {})
            error = entry.get("Code", "no answer for this entry")
            permanent = bool(entry.get("SenderFault")) and not error.startswith(_MAY_PASS)
            yield Unpublished(event, error, permanent)


def _all(batch: Sequence[OutgoingEvent], error: str, *, permanent: bool) -> list[Unpublished]:
    return [Unpublished(event, error, permanent) for event in batch]


def _batches(events: Sequence[OutgoingEvent]) -> Iterator[list[OutgoingEvent]]:
    batch: list[OutgoingEvent] = []
    size = 0
    for event in events:
        more = _bytes(event)
        if len(batch) == Limits.TOPIC_BATCH or (batch and size + more > Limits.TOPIC_MESSAGE_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += more
    if batch:
        yield batch


def _bytes(event: OutgoingEvent) -> int:
    return len(event.body.encode()) + len(f"{EVENT_TYPE_ATTRIBUTE}String{event.type}".encode())
