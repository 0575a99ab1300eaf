"""Relay: publishes the events of new dedup records, from the dedup table's stream to the topic.

It publishes before Lambda advances in the stream. A crash in between publishes events twice and
loses none; their ids are derived, so consumers deduplicate them. An event that the topic refuses
for good, or that its record's consumer may not publish, goes to the relay's dead letters.

Ordered events are published in the order of their commits within each message group, which is that
of the changes of a sequence item. An event that is not published yet keeps the later ones of its
group waiting; a dead letter does not.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

import boto3
import msgspec
from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from msgspec.structs import replace

from once.errors import UNREADABLE, OnceError, SettingsError, Unpublishable, summary_of
from once.events.identity import consumer_of, key_hash, message_group
from once.events.outgoing import OutgoingEvent, check_origin, events_in
from once.failures.quarantine import allowed, batches_by_size, described, key_text, text
from once.intake.original_message import records_of
from once.names import (
    COMMIT_ATTRIBUTE,
    EVENT_TYPE_ATTRIBUTE,
    DeadLetterAttribute,
    Limits,
    Metric,
    Record,
)
from once.runtime.deadline import Context, Deadline
from once.runtime.metrics_log import MetricsLog
from once.runtime.sdk import SDK, sqs_client
from once.settings import RelaySettings

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sns.type_defs import PublishBatchRequestEntryTypeDef
    from mypy_boto3_sqs import SQSClient

_PERMANENT = {
    *("InvalidParameter", "InvalidParameterValue", "ParameterValueInvalid"),
    *("ValidationError", "ValidationException", "BatchRequestTooLong"),
}
_MAY_PASS = ("Throttl", "KMS", "Authorization", "AccessDenied")
"""Prefixes of codes that SNS marks as `SenderFault` although the event is not the cause."""


class NotRelayed(Exception):
    """Some events are not published yet. Lambda invokes the function with the same batch again."""


class Relayed(TypedDict):
    """The relay's answer: events published by type, and the key hash of each dead letter."""

    published: dict[str, int]
    dead_lettered: list[str]


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an event: one record of the stream.

    `pk` is the key of the dedup record, also if the stream's record is of a sequence item.
    """

    stream_id: str
    pk: str
    committed_at: int | None
    outbox: str

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Origin":
        images = record["dynamodb"]
        item = images.get("NewImage", {})
        committed = item.get(Record.COMMITTED_AT, {}).get("N")
        own = images["Keys"][Record.PK]["S"]
        named = item.get(Record.DEDUP_KEY, {}).get("S")
        return cls(
            stream_id=record.get("eventID", ""),
            pk=named if isinstance(named, str) and consumer_of(named) == consumer_of(own) else own,
            committed_at=None if committed is None else int(float(committed)),
            outbox=str(item.get(Record.OUTBOX, {}).get("S", "")),
        )


class _Data(msgspec.Struct):
    """An event, of which only the data is read, or the message group of data in S3."""

    data: Any = None
    oncegroup: str | None = None


def is_new(record: Mapping[str, Any]) -> bool:
    """Return whether a stream record is a commit, not a removal or an update within one commit."""
    images = (record["dynamodb"].get(which, {}) for which in ("OldImage", "NewImage"))
    # A dedup record and a sequence item name their commit in different attributes.
    before, after = (image.get(Record.COMMIT) or image.get(COMMIT_ATTRIBUTE) for image in images)
    return bool(record["eventName"] != "REMOVE" and before != after)


def found_in(
    record: Mapping[str, Any], pk: str, settings: RelaySettings
) -> Iterator[tuple[OutgoingEvent, OnceError | None]]:
    """Yield the events to publish for a stream record, each with its message group.

    Events of types in `Record.SEQUENCED` are published for the sequence item, and not for the
    dedup record, whose key is `pk`. An event that must not be published comes with the reason.

    Raises:
        Unpublishable: the outbox cannot be read.
    """
    item = record["dynamodb"]["NewImage"]
    is_sequence = Record.DEDUP_KEY in item
    elsewhere = () if is_sequence else item.get(Record.SEQUENCED, {}).get("SS", ())
    for position, event in enumerate(events_in(item)):
        if event.type in elsewhere:
            continue
        try:
            check_origin(event, None if is_sequence else position, pk, settings.publishes)
            yield _grouped(event, settings), None
        except Unpublishable as error:
            yield event, error


def _grouped(event: OutgoingEvent, settings: RelaySettings) -> OutgoingEvent:
    path = settings.groups.get(event.type)
    if path is None:
        return event
    try:
        found = msgspec.json.decode(event.body, type=_Data)
    except UNREADABLE as error:
        raise Unpublishable(f"its message group cannot be read: {error}") from None
    group = found.oncegroup or message_group(found.data, path)
    if group is None and event.type in settings.ordered_types:
        raise Unpublishable(
            f"its message group is the field {path!r} of the data, which is neither a non-blank "
            "string nor a whole number: the event was committed before the field was declared"
        )
    return replace(event, group=group)


@dataclass(frozen=True, slots=True)
class Unpublished:
    """An event that is not known to be published.

    If `permanent`, the topic refuses the event itself, and another attempt cannot succeed.
    """

    event: OutgoingEvent
    error: str
    permanent: bool


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

    def refusal(self, failure: Unpublished) -> Unpublishable:
        """Return the error of an event that its topic refuses for good."""
        text = f"the topic refuses {failure.event.type}: {failure.error}"
        if failure.event.type in self.ordered_types:
            text = f"{text}; the later events of its message group are published"
        return Unpublishable(text)

    def _attempt(self, batch: Sequence[OutgoingEvent]) -> list[Unpublished]:
        is_ordered = batch[0].type in self.ordered_types
        try:
            answer = self.client.publish_batch(
                TopicArn=(self.ordered_topic_arn or "") if is_ordered else self.topic_arn,
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
        if event.type in self.ordered_types:
            # Derived from the inbound key: within five minutes SNS itself drops a second publish.
            entry["MessageDeduplicationId"] = event.id
        return entry


def _size(event: OutgoingEvent) -> int:
    """Return the bytes of an event as SNS counts them, its attribute included."""
    return len(f"{event.body}{EVENT_TYPE_ATTRIBUTE}String{event.type}".encode())


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


def remaining(
    events: Sequence[OutgoingEvent],
    going: Sequence[OutgoingEvent],
    failures: Sequence[Unpublished],
) -> list[OutgoingEvent]:
    """Return the events that are still to be published, in their order.

    Those of `going` were just sent, and the failures among them must be sent again.
    """
    done = {event.id for event in going} - {failure.event.id for failure in failures}
    return [event for event in events if event.id not in done]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Publishes the events of committed records. Tests can replace each of its parts."""

    settings: RelaySettings
    sns: "SNSClient"
    sqs: "SQSClient"
    logger: Logger
    metrics: MetricsLog = field(default_factory=MetricsLog)
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def of(cls, settings: RelaySettings, *, region: str | None = None) -> "Relay":
        """Return the relay of a deployed function.

        Raises:
            SettingsError: there are ordered types, and no FIFO topic for them.
        """
        if settings.ordered_types and settings.ordered_topic_arn is None:
            types = ", ".join(settings.ordered_types)
            raise SettingsError([f"ordered_topic_arn: it is missing; {types} need a FIFO topic"])
        return cls(
            settings=settings,
            sns=boto3.client("sns", region, config=SDK),
            sqs=sqs_client(region),
            logger=Logger(service=settings.service),
        )

    def handle(self, event: Mapping[str, Any], context: Context) -> Relayed:
        """Publish the events of a batch of stream records.

        Raises:
            NotRelayed: the topic did not take some of them within this invocation. The batch comes
                again, and consumers deduplicate the events that are then published twice.
            botocore.exceptions.ClientError, BotoCoreError: a dead letter could not be written.
        """
        margin = self.settings.time_margin_ms
        deadline = Deadline(context.get_remaining_time_in_millis, margin, self.sleep)
        origins: dict[str, Origin] = {}
        events: list[OutgoingEvent] = []
        dead_letters: list[str] = []
        for record in filter(is_new, records_of(event, "aws:dynamodb")):
            origin = Origin.of(record)
            try:
                for found, error in found_in(record, origin.pk, self.settings):
                    if error is None:
                        events.append(found)
                        origins[found.id] = origin
                    else:
                        dead_letters.append(self._dead_letter(origin, found.body, error))
            except Unpublishable as error:
                dead_letters.append(self._dead_letter(origin, origin.outbox, error))
        published = self._publish(events, origins, deadline, dead_letters)
        self._report(origins.values(), published=published.total())
        return {"published": dict(published), "dead_lettered": dead_letters}

    def _publish(
        self,
        events: Sequence[OutgoingEvent],
        origins: Mapping[str, Origin],
        deadline: Deadline,
        dead_letters: list[str],
    ) -> Counter[str]:
        """Publish events until each is published or dead-lettered; count the published by type."""
        settings = self.settings
        publisher = Publisher(
            self.sns, settings.topic_arn, settings.ordered_topic_arn, settings.ordered_types
        )
        published = Counter(event.type for event in events)
        attempt = 0
        while events:
            going = publisher.next_of(events)
            left = publisher.publish(going)
            for failure in left:
                if failure.permanent:
                    origin, body = origins[failure.event.id], failure.event.body
                    dead_letters.append(self._dead_letter(origin, body, publisher.refusal(failure)))
                    published[failure.event.type] -= 1
            waiting = [failure for failure in left if not failure.permanent]
            events = remaining(events, going, waiting)
            if events and not (deadline.pause(attempt) if waiting else not deadline.spent):
                error = waiting[0].error if waiting else "no time is left"
                raise NotRelayed(f"{len(events)} events are not published: {error}")
            attempt += bool(waiting)
        return +published

    def _dead_letter(self, origin: Origin, body: str, error: OnceError) -> str:
        """Send a dead letter, and return the hash of its record's key."""
        name = key_hash(origin.pk)
        facts = {
            DeadLetterAttribute.REASON: error.reason,
            DeadLetterAttribute.ERROR: described(error),
            DeadLetterAttribute.CONSUMER: allowed(consumer_of(origin.pk)) or "unknown",
            DeadLetterAttribute.KEY: key_text(origin.pk),
            DeadLetterAttribute.LINEAGE: origin.stream_id,
        }
        self.sqs.send_message(
            QueueUrl=self.settings.dead_letter_url,
            MessageBody=allowed(body) or "the record has no outbox that could be read",
            MessageAttributes={name: text(value) for name, value in facts.items()},
        )
        self.logger.warning(
            "quarantined",
            extra={"reason": error.reason, "error": error.summary, "key_hash": name},
        )
        return name

    def _report(self, origins: Iterable[Origin], *, published: int) -> None:
        if published:
            now, figures = self.clock(), {}
            # `once outbox republish` sends records without the time of their commit.
            times = [each.committed_at for each in origins if each.committed_at is not None]
            if times:
                figures[Metric.RELAY_LAG_MS] = [max(0, now * 1000 - min(times))]
            figures[Metric.PUBLISHED] = [published]
            self.metrics.report(figures, now)
            self.metrics.flush()
        self.logger.info("relayed", extra={"published": published})
