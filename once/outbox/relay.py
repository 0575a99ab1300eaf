"""Relay: publishes the events of new dedup records, from the dedup table's stream to the topic.

It publishes before Lambda advances in the stream. A crash in between publishes events twice and
loses none; their ids are derived, so consumers deduplicate them. An event that the topic refuses
for good, or that its record's consumer may not publish, goes to the relay's dead letters.

An event that is due later is not published here: it gets a schedule of EventBridge Scheduler.

Ordered events are published in the order of their commits within each message group, which is that
of the changes of a sequence item. An event that is not published yet keeps the later ones of its
group waiting; a dead letter does not.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import boto3
import msgspec
from aws_lambda_powertools import Logger
from msgspec.structs import replace

from once.errors import UNREADABLE, OnceError, SettingsError, Unpublishable
from once.events.identity import consumer_of, key_hash, message_group
from once.events.outgoing import OutgoingEvent, check_origin, events_in
from once.failures.quarantine import allowed, described, key_text, text
from once.intake.original_message import records_of
from once.names import COMMIT_ATTRIBUTE, DeadLetterAttribute, Metric, Record
from once.outbox.publisher import Publisher, Unpublished, remaining
from once.runtime.deadline import Context, Deadline
from once.runtime.metrics_log import MetricsLog
from once.runtime.sdk import SDK, sqs_client
from once.settings import RelaySettings

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient


class NotRelayed(Exception):
    """Some events are not published yet. Lambda invokes the function with the same batch again."""


class Relayed(TypedDict):
    """The relay's answer: events published by type, and the key hash of each dead letter.

    `scheduled` has the events that will be published later, by type, if there are any.
    """

    published: dict[str, int]
    scheduled: NotRequired[dict[str, int]]
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
        # A sequence item names its dedup record. Another consumer's name counts for nothing: a role
        # can write items of its own consumer only, and a name is an attribute like any other.
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
            continue  # here, it would be published a second time and out of order
        # The topic cannot check an event's consumer, since the relay alone publishes there, and a
        # function's role lets it write any outbox into its own records.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Publishes the events of committed records. Tests can replace each of its parts."""

    settings: RelaySettings
    sns: "SNSClient"
    sqs: "SQSClient"
    logger: Logger
    scheduler: Any = None
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
            scheduler=None
            if settings.schedules is None
            else boto3.client("scheduler", region, config=SDK),
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
        # Dead letters leave before the events: if the batch comes again, some are sent twice, and
        # all at least once.
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
        published, scheduled = self._publish(events, origins, deadline, dead_letters)
        self._report(origins.values(), published.total(), scheduled.total())
        answer = Relayed(published=dict(published), dead_lettered=dead_letters)
        return {**answer, "scheduled": dict(scheduled)} if scheduled else answer

    def _publish(
        self,
        events: Sequence[OutgoingEvent],
        origins: Mapping[str, Origin],
        deadline: Deadline,
        dead_letters: list[str],
    ) -> tuple[Counter[str], Counter[str]]:
        """Publish events until each is published, scheduled or dead-lettered.

        Return the numbers of published and of scheduled events by type.
        """
        settings = self.settings
        publisher = Publisher(
            self.sns, settings.topic_arn, settings.ordered_topic_arn, settings.ordered_types
        )
        published, scheduled = Counter[str](), Counter[str]()
        attempt = 0
        while events:
            going = publisher.next_of(events)
            now = self.clock()
            later = {event for event in going if event.due is not None and event.due > now}
            left = publisher.publish([event for event in going if event not in later])
            if later:
                left += self._schedule([event for event in going if event in later], deadline)
            failed = {failure.event for failure in left}
            for event in going:
                if event not in failed:
                    (scheduled if event in later else published)[event.type] += 1
            for failure in left:
                if failure.permanent:
                    origin, event = origins[failure.event.id], failure.event
                    refusal = self._refusal(failure, scheduled=event in later)
                    dead_letters.append(self._dead_letter(origin, event.body, refusal))
            waiting = [failure for failure in left if not failure.permanent]
            events = remaining(events, going, waiting)
            # Without a refusal there is no reason to pause: the next events of the groups go now.
            if events and not (deadline.pause(attempt) if waiting else not deadline.spent):
                # Raised: after any answer, Lambda would advance in the stream, past these events.
                error = waiting[0].error if waiting else "no time is left"
                raise NotRelayed(f"{len(events)} events are not published: {error}")
            attempt += bool(waiting)
        return published, scheduled

    def _schedule(self, events: list[OutgoingEvent], deadline: Deadline) -> list[Unpublished]:
        """Create the schedules of due events; see `DueEvents.create`."""
        from once.outbox.due_events import DueEvents  # few relays have due events

        settings, ordered = self.settings, self.settings.ordered_types
        if settings.schedules is None:
            error = "add the type to publishes_later= of its consumer in the CDK app and deploy"
            return [Unpublished(event, error, permanent=True) for event in events]
        error = "a FIFO consumer takes the type, and a schedule keeps no order"
        refused = [
            Unpublished(each, error, permanent=True) for each in events if each.type in ordered
        ]
        due = DueEvents(self.scheduler, settings.topic_arn, settings.schedules, self.clock)
        return refused + due.create([e for e in events if e.type not in ordered], deadline)

    def _refusal(self, failure: Unpublished, *, scheduled: bool) -> Unpublishable:
        if scheduled:
            return Unpublishable(f"{failure.event.type} cannot be scheduled: {failure.error}")
        text = f"the topic refuses {failure.event.type}: {failure.error}"
        if failure.event.type in self.settings.ordered_types:
            text = f"{text}; the later events of its message group are published"
        return Unpublishable(text)

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
            # SQS refuses an empty body.
            MessageBody=allowed(body) or "the record has no outbox that could be read",
            MessageAttributes={name: text(value) for name, value in facts.items()},
        )
        self.logger.warning(
            "quarantined",
            extra={"reason": error.reason, "error": error.summary, "key_hash": name},
        )
        return name

    def _report(self, origins: Iterable[Origin], published: int, scheduled: int) -> None:
        if published or scheduled:
            now, figures = self.clock(), {}
            # `once outbox republish` sends records without the time of their commit.
            times = [each.committed_at for each in origins if each.committed_at is not None]
            if times:
                figures[Metric.RELAY_LAG_MS] = [max(0, now * 1000 - min(times))]
            if published:
                figures[Metric.PUBLISHED] = [published]
            if scheduled:
                figures[Metric.DUE_CREATED] = [scheduled]
            self.metrics.report(figures, now)
            self.metrics.flush()
        counts = {"published": published, **({"scheduled": scheduled} if scheduled else {})}
        self.logger.info("relayed", extra=counts)
