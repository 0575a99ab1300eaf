"""Checks of a consumer's event source. Each fault states its remedy."""

import re
from collections.abc import Iterator

from once.cdk.checks.handlers_in_code import source_key_faults
from once.cdk.props import ConsumerProps
from once.schema import SOURCE_PREFIX
from once.source import (
    S3_TYPES,
    EventBridgeSource,
    JsonSource,
    S3Source,
    ScheduleSource,
    SnsSource,
)

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_BUS = re.compile(r"[\w./-]{1,256}", re.ASCII)
_TOPIC = re.compile(r"arn:[\w-]+:sns:[\w-]+:\d{12}:[\w-]{1,256}", re.ASCII)
_PRINCIPAL = re.compile(r"arn:[\w-]+:(iam|sts)::\d{12}:.+", re.ASCII)
_SCHEDULE = re.compile(r"(cron|rate|at)\(.+\)")


def event_source_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every fault of a consumer's source, without the consumer's name."""
    match consumer.source:
        case None:
            return
        case EventBridgeSource() as source:
            yield from _event_bridge_faults(source)
        case S3Source() as source:
            yield from _s3_faults(source, consumer)
        case SnsSource() as source:
            yield from _sns_faults(source, consumer)
        case JsonSource() as source:
            yield from _json_faults(source, consumer)
        case ScheduleSource() as source:
            yield from _schedule_faults(source, consumer)
    yield from _mixture_faults(consumer)
    yield from source_key_faults(consumer)


def _mixture_faults(consumer: ConsumerProps) -> Iterator[str]:
    if consumer.events:
        yield (
            "it has source= and events=, and a queue holds messages in one envelope; take the "
            "events of other consumers in a consumer of its own"
        )
    if consumer.grouped_by is not None or consumer.fifo:
        yield (
            "it has source= and a message group (fifo= or fair_by=), which only events of the "
            "topics have; leave one of the two out"
        )


def _event_bridge_faults(source: EventBridgeSource) -> Iterator[str]:
    if not source.sources:
        yield "its rule selects no source; name one in Source.event_bridge(…), such as 'aws.ec2'"
    for each in source.sources:
        if not isinstance(each, str) or not each.strip() or each.startswith(SOURCE_PREFIX):
            yield (
                f"its rule selects the source {each!r}; give the `source` of the events, which "
                f"does not begin with {SOURCE_PREFIX}"
            )
    if not _BUS.fullmatch(source.bus):
        yield f"bus={source.bus!r} is no name; give the name of an event bus of this account"


def _s3_faults(source: S3Source, consumer: ConsumerProps) -> Iterator[str]:
    for event in consumer.external:
        if event not in S3_TYPES:
            yield (
                f"external has {event!r}, and its source has {' and '.join(S3_TYPES)} only; take "
                "other events of S3 with Source.event_bridge('aws.s3')"
            )
    if source.bucket is not None and not _BUCKET.fullmatch(source.bucket):
        yield f"bucket={source.bucket!r} is no name of a bucket; give its name, not its ARN"


def _sns_faults(source: SnsSource, consumer: ConsumerProps) -> Iterator[str]:
    if not _TOPIC.fullmatch(source.topic):
        yield f"topic={source.topic!r} is no ARN of a standard topic; give that of the topic"
    if source.is_plain:
        yield from _type_faults(source, consumer)
    elif source.envelope_id:
        yield (
            "envelope_id=True, and CloudEvents have an id of their own; leave it out, or give "
            "type= or type_field= if the messages are plain JSON"
        )


def _json_faults(source: JsonSource, consumer: ConsumerProps) -> Iterator[str]:
    yield from _type_faults(source, consumer)
    for sender in source.senders:
        if not _PRINCIPAL.fullmatch(sender):
            yield (
                f"the sender {sender!r} is no ARN of a principal; give one, such as "
                "'arn:aws:iam::123456789012:role/shop'"
            )


def _type_faults(source: JsonSource | SnsSource, consumer: ConsumerProps) -> Iterator[str]:
    if (source.type is None) is (source.type_field is None):
        yield (
            f"Source.{source.kind}(…) needs type= for one type of all messages, or type_field= for "
            "the field that holds it; give one of the two"
        )
    elif source.type is not None and consumer.external != (source.type,):
        yield (
            f"every message has the type {source.type!r}, and external is {consumer.external}; "
            f"give external=({source.type!r},), or type_field="
        )


def _schedule_faults(source: ScheduleSource, consumer: ConsumerProps) -> Iterator[str]:
    if not _SCHEDULE.fullmatch(source.expression):
        yield (
            f"the schedule {source.expression!r}; give cron(…), rate(…) or at(…), such as "
            "'cron(0 3 * * ? *)'"
        )
    if len(consumer.external) != 1:
        yield (
            f"a schedule sends one event type, and external is {consumer.external}; name one, and "
            "make a consumer for each further schedule"
        )
