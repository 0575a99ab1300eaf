"""Relay: publishes the events of new dedup records, from the dedup table's stream to the topic.

It publishes before Lambda advances in the stream. A crash in between publishes events twice and
loses none; their ids are derived, so consumers deduplicate them. An event that the topic refuses
for good, or that its record's consumer may not publish, goes to the relay's dead letters.

Ordered events are published in the order of their commits within each message group. An event that
is not published yet keeps the later ones of its group waiting; a dead letter does not.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

import boto3
from aws_lambda_powertools import Logger

from once.deadline import Deadline
from once.errors import OnceError, SettingsError, Unpublishable
from once.events.dedup_key import consumer_of, key_hash
from once.events.outgoing import OutgoingEvent
from once.failures.quarantine import allowed, described, key_text, text
from once.metric_names import Metric
from once.metrics_log import MetricsLog
from once.outbox._stream_records import Source, found_in, is_new, source_of
from once.outbox._topics import Topics, remaining
from once.schema import DeadLetter
from once.sdk import SDK, sqs_client
from once.settings import RelaySettings

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient

    from once.deadline import Context


class NotRelayed(Exception):
    """Some events are not published yet. Lambda invokes the function with the same batch again."""


class Relayed(TypedDict):
    """The relay's answer: events published by type, and the key hash of each dead letter."""

    published: dict[str, int]
    dead_lettered: list[str]


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
            raise SettingsError([f"ONCE_ORDERED_TOPIC_ARN is empty, and {types} need a FIFO topic"])
        return cls(
            settings=settings,
            sns=boto3.client("sns", region, config=SDK),
            sqs=sqs_client(region),
            logger=Logger(service=settings.service),
        )

    def handle(self, event: Mapping[str, Any], context: "Context") -> Relayed:
        """Publish the events of a batch of stream records.

        Raises:
            NotRelayed: the topic did not take some of them within this invocation. The batch comes
                again, and consumers deduplicate the events that are then published twice.
            botocore.exceptions.ClientError, BotoCoreError: a dead letter could not be written.
        """
        margin = self.settings.time_margin_ms
        deadline = Deadline(context.get_remaining_time_in_millis, margin, self.sleep)
        sources: dict[str, Source] = {}
        events: list[OutgoingEvent] = []
        letters: list[str] = []
        for record in filter(is_new, event["Records"]):
            source = source_of(record)
            for found in self._read(record, source, letters):
                events.append(found)
                sources[found.id] = source
        published = self._publish(events, sources, deadline, letters)
        self._report(sources.values(), published=published.total())
        return {"published": dict(published), "dead_lettered": letters}

    def _read(
        self, record: Mapping[str, Any], source: Source, letters: list[str]
    ) -> list[OutgoingEvent]:
        permitted = []
        try:
            for event, error in found_in(record, source, self.settings):
                if error is None:
                    permitted.append(event)
                else:
                    letters.append(self._dead_letter(source, event.body, error))
        except Unpublishable as error:
            letters.append(self._dead_letter(source, source.outbox, error))
        return permitted

    def _publish(
        self,
        events: Sequence[OutgoingEvent],
        sources: Mapping[str, Source],
        deadline: Deadline,
        letters: list[str],
    ) -> Counter[str]:
        """Publish events until each is published or dead-lettered; count the published by type."""
        topics = Topics(self.sns, self.settings)
        published = Counter(event.type for event in events)
        attempt = 0
        while events:
            going = topics.next_of(events)
            left = topics.publish(going)
            for failure in left:
                if failure.permanent:
                    source, body = sources[failure.event.id], failure.event.body
                    letters.append(self._dead_letter(source, body, topics.refusal(failure)))
                    published[failure.event.type] -= 1
            waiting = [failure for failure in left if not failure.permanent]
            events = remaining(events, going, waiting)
            if events and not (deadline.pause(attempt) if waiting else not deadline.spent):
                error = waiting[0].error if waiting else "no time is left"
                raise NotRelayed(f"{len(events)} events are not published: {error}")
            attempt += bool(waiting)
        return +published

    def _dead_letter(self, source: Source, body: str, error: OnceError) -> str:
        """Send a dead letter, and return the hash of its record's key."""
        name = key_hash(source.pk)
        facts = {
            DeadLetter.REASON: error.reason,
            DeadLetter.ERROR: described(error),
            DeadLetter.CONSUMER: allowed(consumer_of(source.pk)) or "unknown",
            DeadLetter.KEY: key_text(source.pk),
            DeadLetter.LINEAGE: source.stream_id,
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

    def _report(self, sources: Iterable[Source], *, published: int) -> None:
        if published:
            now, figures = self.clock(), {}
            # `once outbox republish` sends records without the time of their commit.
            times = [s.committed_at for s in sources if s.committed_at is not None]
            if times:
                figures[Metric.RELAY_LAG_MS] = [max(0, now * 1000 - min(times))]
            figures[Metric.PUBLISHED] = [published]
            self.metrics.report(figures, now)
            self.metrics.flush()
        self.logger.info("relayed", extra={"published": published})
