"""Publisher: sends events to a topic in batches, and checks the answer of each entry.

The relay publishes the events of consumers with it, and `once.producer` those of producers.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.errors import summary_of
from once.events.identity import digest
from once.events.outgoing import OutgoingEvent
from once.failures.quarantine import batches_by_size
from once.names import EVENT_TYPE_ATTRIBUTE, Limits

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sns.type_defs import PublishBatchRequestEntryTypeDef

_PERMANENT = {
    *("InvalidParameter", "InvalidParameterValue", "ParameterValueInvalid"),
    *("ValidationError", "ValidationException", "BatchRequestTooLong"),
}
_MAY_PASS = ("Throttl", "KMS", "Authorization", "AccessDenied")
"""Prefixes of codes that SNS marks as `SenderFault` although the event is not the cause."""


@dataclass(frozen=True, slots=True)
class Unpublished:
    """An event that is not known to be published.

    If `permanent`, the topic refuses the event itself, and another attempt cannot succeed. `cause`
    is the error of the call if it failed as a whole, after the attempts of the SDK.
    """

    event: OutgoingEvent
    error: str
    permanent: bool
    cause: Exception | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Publisher:
    """Publishes each event to the standard topic or to the FIFO topic, by its type.

    SNS answers PublishBatch with HTTP 200 even if some entries of the batch failed, so the result
    of each entry is checked.

    Events of `ordered_types`, for the FIFO topic, need a message group each.
    """

    client: "SNSClient"
    topic_arn: str
    ordered_topic_arn: str | None = None
    ordered_types: Collection[str] = ()

    def next_of(self, events: Sequence[OutgoingEvent]) -> list[OutgoingEvent]:
        """Return the events that may be published together: one of each ordered message group.

        SNS may take a later event of a batch and refuse an earlier one, so that two of one group
        in a batch could change places.
        """
        groups: set[str | None] = set()
        going = []
        for event in events:
            if event.type not in self.ordered_types or event.group not in groups:
                going.append(event)
            if event.type in self.ordered_types:
                groups.add(event.group)
        return going

    def publish(self, events: Sequence[OutgoingEvent]) -> list[Unpublished]:
        """Try once to publish each event; return those that are not known to be published.

        SNS may refuse a batch without naming the failing event. Such a batch is halved until that
        event is alone. A batch without an answer counts as not published: if it was, consumers
        deduplicate the events of the next attempt.
        """
        standard = [event for event in events if event.type not in self.ordered_types]
        ordered = [event for event in events if event.type in self.ordered_types]
        batches = [
            batch
            for of_topic in (standard, ordered)
            for batch in batches_by_size(
                of_topic, _size, most=Limits.TOPIC_BATCH, most_bytes=Limits.TOPIC_MESSAGE_BYTES
            )
        ]
        return [event for batch in batches for event in self._attempt(batch)]

    def _attempt(self, batch: Sequence[OutgoingEvent]) -> list[Unpublished]:
        is_ordered = batch[0].type in self.ordered_types
        try:
            answer = self.client.publish_batch(
                TopicArn=(self.ordered_topic_arn or "") if is_ordered else self.topic_arn,
                PublishBatchRequestEntries=[self._entry(*each) for each in enumerate(batch)],
            )
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
            # Of a batch, one event may be the cause, or the size of all together.
            permanent = code in _PERMANENT
            if permanent and len(batch) > 1:
                half = len(batch) // 2
                return self._attempt(batch[:half]) + self._attempt(batch[half:])
            return [Unpublished(event, summary_of(error), permanent, error) for event in batch]
        return list(_refused(batch, answer))

    def _entry(self, number: int, event: OutgoingEvent) -> "PublishBatchRequestEntryTypeDef":
        entry = cast("PublishBatchRequestEntryTypeDef", {"Id": str(number), **message_of(event)})
        if event.type in self.ordered_types:
            entry["MessageDeduplicationId"] = deduplication_id(event)
        return entry


def message_of(event: OutgoingEvent) -> dict[str, Any]:
    """Return the message of an event, as parameters of SNS's Publish."""
    attribute = {"DataType": "String", "StringValue": event.type}
    message = {"Message": event.body, "MessageAttributes": {EVENT_TYPE_ATTRIBUTE: attribute}}
    # On the standard topic too: standard queues share deliveries fairly between groups.
    return message if event.group is None else {**message, "MessageGroupId": event.group}


def deduplication_id(event: OutgoingEvent) -> str:
    """Return the id by which a FIFO topic or queue drops a second copy within five minutes.

    It is the same for two copies of an event only: they have one source and one id.
    """
    return digest([event.source, event.id])


def _size(event: OutgoingEvent) -> int:
    """Return the bytes of an event as SNS counts them, its attribute included."""
    return len(f"{event.body}{EVENT_TYPE_ATTRIBUTE}String{event.type}".encode())


def _refused(batch: Sequence[OutgoingEvent], answer: Any) -> Iterator[Unpublished]:
    """Yield the events of entries that did not succeed, failed or not answered."""
    successful = {entry["Id"] for entry in answer.get("Successful", [])}
    failed = {entry["Id"]: entry for entry in answer.get("Failed", [])}
    for number, event in enumerate(batch):
        # Not by `Failed`: an entry that is in neither list may not be published either.
        if str(number) not in successful:
            entry = failed.get(str(number), {})
            error = entry.get("Code", "no answer for this entry")
            permanent = bool(entry.get("SenderFault")) and not error.startswith(_MAY_PASS)
            yield Unpublished(event, error, permanent)


def remaining(
    events: Sequence[OutgoingEvent],
    going: Sequence[OutgoingEvent],
    failures: Sequence[Unpublished],
) -> list[OutgoingEvent]:
    """Return the events that are still to be published, in their order.

    Those of `going` were just sent, and the failures among them must be sent again.
    """
    done = {*going} - {failure.event for failure in failures}
    return [event for event in events if event not in done]
