"""The relay: from the dedup table's stream to the topic.

It sends first and lets Lambda move on afterwards, so a crash in between publishes twice and loses
nothing: event ids are derived, and consumers deduplicate. What can never be published goes to the
relay's own dead letters, and the shard goes on.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from once.budget import Budget
from once.contract import DeadLetter, Metric, Record
from once.dead_letter import allowed, described, text
from once.errors import OnceError, Unpublishable
from once.keys import key_hash
from once.outbox import OutgoingEvent, events_in
from once.publisher import Publisher, Unpublished
from once.sdk import SDK, sqs_client
from once.settings import RelaySettings

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient

    from once.consumer import Context


class NotRelayed(Exception):
    """Some events are not published yet. Lambda hands the whole batch over again."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where an event comes from: one record of the stream."""

    stream_id: str
    pk: str
    committed_at: int
    outbox: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Publishes what commits. Everything it works with can be replaced in a test."""

    settings: RelaySettings
    sns: "SNSClient"
    sqs: "SQSClient"
    logger: Logger
    metrics: Metrics
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def of(cls, settings: RelaySettings, *, region: str | None = None) -> "Relay":
        """Return the relay of a deployed function."""
        return cls(
            settings=settings,
            sns=boto3.client("sns", region, config=SDK),
            sqs=sqs_client(region),
            logger=Logger(service=settings.service),
            metrics=Metrics(namespace=Metric.NAMESPACE),
        )

    def handle(self, event: Mapping[str, Any], context: "Context") -> None:
        """Publish the events of a batch of stream records.

        Raises:
            NotRelayed: the topic did not take some of them in the time of this invocation. Nothing
                is lost: the batch comes again, and what was published twice is deduplicated.
            botocore.exceptions.ClientError, BotoCoreError: a dead letter could not be written.
        """
        margin = self.settings.time_margin_ms
        budget = Budget(context.get_remaining_time_in_millis, margin, self.sleep)
        sources: dict[str, Source] = {}
        events: list[OutgoingEvent] = []
        for record in filter(_is_new, event["Records"]):
            source = _source(record)
            for found in self._read(record, source):
                events.append(found)
                sources[found.id] = source
        letters = self._publish(events, sources, budget)
        self._report(sources.values(), published=len(events) - letters)

    def _read(self, record: Mapping[str, Any], source: Source) -> list[OutgoingEvent]:
        try:
            return events_in(record["dynamodb"]["NewImage"])
        except Unpublishable as error:
            self._dead_letter(source, source.outbox, error)
            return []

    def _publish(
        self, events: Sequence[OutgoingEvent], sources: Mapping[str, Source], budget: Budget
    ) -> int:
        """Publish until all is published or dead-lettered; return how many are the latter."""
        publisher = Publisher(self.sns, self.settings.topic_arn)
        letters = attempt = 0
        while left := publisher.publish(events):
            permanent = [failure for failure in left if failure.permanent]
            for failure in permanent:
                self._dead_letter(sources[failure.event.id], failure.event.body, _error(failure))
            letters += len(permanent)
            waiting = [failure for failure in left if not failure.permanent]
            events = [failure.event for failure in waiting]
            if waiting and not budget.pause(attempt):
                raise NotRelayed(f"{len(waiting)} events are not published: {waiting[0].error}")
            attempt += 1
        return letters

    def _dead_letter(self, source: Source, body: str, error: OnceError) -> None:
        facts = {
            DeadLetter.REASON: error.reason,
            DeadLetter.ERROR: described(error),
            DeadLetter.CONSUMER: source.pk.partition("#")[0],
            DeadLetter.KEY_HASH: key_hash(source.pk),
            DeadLetter.LINEAGE: source.stream_id,
        }
        self.sqs.send_message(
            QueueUrl=self.settings.dead_letter_url,
            MessageBody=allowed(body) or "the record has no outbox that could be read",
            MessageAttributes={name: text(value) for name, value in facts.items()},
        )
        self.logger.warning(
            "quarantined",
            extra={
                "reason": error.reason,
                "error": error.summary,
                "key_hash": key_hash(source.pk),
            },
        )

    def _report(self, sources: Iterable[Source], *, published: int) -> None:
        if published:
            oldest = min(source.committed_at for source in sources)
            lag = max(0, self.clock() * 1000 - oldest)
            unit = MetricUnit.Milliseconds
            self.metrics.add_metric(name=Metric.RELAY_LAG_MS, unit=unit, value=lag)
            self.metrics.add_metric(name=Metric.PUBLISHED, unit=MetricUnit.Count, value=published)
            self.metrics.flush_metrics()
        self.logger.info("relayed", extra={"published": published})


def _is_new(record: Mapping[str, Any]) -> bool:
    """Tell a commit from a removal, and from an update that keeps the commit it found."""
    images = record["dynamodb"]
    before, after = (images.get(which, {}).get(Record.COMMIT) for which in ("OldImage", "NewImage"))
    return bool(record["eventName"] != "REMOVE" and before != after)


def _source(record: Mapping[str, Any]) -> Source:
    images = record["dynamodb"]
    item = images.get("NewImage", {})
    return Source(
        stream_id=record.get("eventID", ""),
        pk=images["Keys"][Record.PK]["S"],
        committed_at=int(float(item.get(Record.COMMITTED_AT, {}).get("N", 0))),
        outbox=str(item.get(Record.OUTBOX, {}).get("S", "")),
    )


def _error(failure: Unpublished) -> Unpublishable:
    return Unpublishable(f"the topic refuses {failure.event.type}: {failure.error}")
