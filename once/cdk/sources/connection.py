"""Connects a consumer's queue to its source."""

from aws_cdk import aws_s3 as s3

from once.cdk.sources._bucket_notification import notify_queue
from once.cdk.sources._event_rule import make_rule
from once.cdk.sources._queue_senders import allow_senders
from once.cdk.sources._schedule import make_schedule
from once.cdk.sources._topic_subscription import subscribe_to_topic
from once.cdk.sources.destination import Destination
from once.source import (
    EventBridgeSource,
    JsonSource,
    S3Source,
    ScheduleSource,
    SnsSource,
)


def connect(to: Destination, bucket: s3.IBucket | None) -> None:
    """Make what delivers the events of the consumer's source into its queue.

    Args:
        to: the queue.
        bucket: the bucket of `Source.s3()` without a name.
    """
    match to.props.source:
        case EventBridgeSource() as source:
            make_rule(to, source)
        case S3Source() as source:
            notify_queue(to, source, bucket)
        case SnsSource() as source:
            subscribe_to_topic(to, source)
        case JsonSource() as source:
            allow_senders(to, source)
        case ScheduleSource() as source:
            make_schedule(to, source)
