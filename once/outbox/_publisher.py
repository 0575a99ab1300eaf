"""Publisher: sends events to the topic of their type, and checks the result of each entry.

SNS answers PublishBatch with HTTP 200 even if some entries of the batch failed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.errors import Unpublishable, summary_of
from once.events.outgoing import OutgoingEvent
from once.names import EVENT_TYPE_ATTRIBUTE, Limits
from once.settings import RelaySettings

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sns.type_defs import PublishBatchRequestEntryTypeDef

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
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
            permanent = code in _PERMANENT
            if permanent and len(batch) > 1:
                half = len(batch) // 2
                return self._attempt(batch[:half]) + self._attempt(batch[half:])
            return [Unpublished(event, summary_of(error), permanent) for event in batch]
        return list(_refused(batch, answer))

    def _entry(self, number: int, event: OutgoingEvent) -> "PublishBatchRequestEntryTypeDef":
        entry: PublishBatchRequestEntryTypeDef = {
            "Id": str(number),
            "Message": event.body,
            "MessageAttributes": {
                EVENT_TYPE_ATTRIBUTE: {"DataType": "String", "StringValue": event.type}
            },
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


def _batches(events: Sequence[OutgoingEvent]) -> Iterator[list[OutgoingEvent]]:
    batch: list[OutgoingEvent] = []
    size = 0
    for event in events:
        attribute = f"{EVENT_TYPE_ATTRIBUTE}String{event.type}"
        more = len(event.body.encode()) + len(attribute.encode())
        if len(batch) == Limits.TOPIC_BATCH or (batch and size + more > Limits.TOPIC_MESSAGE_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += more
    if batch:
        yield batch


class Topics:
    """Publishes each event to the standard topic or to the FIFO topic, by its type.

    Args:
        client: an SNS client.
        settings: the topics, and the ordered types.
    """

    def __init__(self, client: "SNSClient", settings: RelaySettings) -> None:
        self._ordered_types = settings.ordered_types
        self._standard = Publisher(client, settings.topic_arn)
        self._ordered = Publisher(client, settings.ordered_topic_arn or "", is_fifo=True)

    def next_of(self, events: Sequence[OutgoingEvent]) -> list[OutgoingEvent]:
        """Return the events that may be published together: one of each ordered message group.

        SNS may take a later event of a batch and refuse an earlier one, so that two of one group
        in a batch could change places.
        """
        groups: set[str | None] = set()
        going = []
        for event in events:
            if event.type not in self._ordered_types:
                going.append(event)
            elif event.group not in groups:
                groups.add(event.group)
                going.append(event)
        return going

    def publish(self, events: Sequence[OutgoingEvent]) -> list[Unpublished]:
        """Try once to publish each event; return those that are not known to be published."""
        standard = [event for event in events if event.type not in self._ordered_types]
        ordered = [event for event in events if event.type in self._ordered_types]
        return self._standard.publish(standard) + self._ordered.publish(ordered)

    def refusal(self, failure: Unpublished) -> Unpublishable:
        """Return the error of an event that its topic refuses for good."""
        text = f"the topic refuses {failure.event.type}: {failure.error}"
        if failure.event.type in self._ordered_types:
            text = f"{text}; the later events of its message group are published"
        return Unpublishable(text)


def remaining(
    events: Sequence[OutgoingEvent],
    going: Sequence[OutgoingEvent],
    failures: Sequence[Unpublished],
) -> list[OutgoingEvent]:
    """Return the events that are still to be published, in their order.

    Args:
        events: the events, in the order of their commits.
        going: those that were just sent.
        failures: those of `going` that must be sent again.
    """
    done = {event.id for event in going} - {failure.event.id for failure in failures}
    return [event for event in events if event.id not in done]
