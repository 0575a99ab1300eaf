"""The notifications of a bucket to a consumer's queue."""

from typing import Any, cast

import jsii
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct, IDependable

from once.cdk.nag import acknowledge_finding
from once.cdk.sources.destination import Destination
from once.source import S3Source

_EVENTS = {
    "ObjectCreated": s3.EventType.OBJECT_CREATED,
    "ObjectRemoved": s3.EventType.OBJECT_REMOVED,
}
_HANDLER = "BucketNotificationsHandler050a0587b7544547bf325f094a3db834"
"""Id of the function by which the CDK writes the notifications of buckets."""


def notify_queue(to: Destination, source: S3Source, bucket: s3.IBucket | None) -> None:
    """Add the queue to the bucket's notifications; a stopped source is taken out of them.

    Other notifications of the bucket stay.
    """
    if to.stopped:
        return
    # Imported by name: a bucket of another stack would make a circle of the two stacks.
    name = source.bucket if bucket is None else bucket.bucket_name
    imported = s3.Bucket.from_bucket_name(to.scope, "Bucket", str(name))
    chosen = s3.NotificationKeyFilter(prefix=source.prefix or None, suffix=source.suffix or None)
    filters = [chosen] if source.prefix or source.suffix else []
    queue = _Queue(to, imported.bucket_arn)
    if to.local:  # there, the CDK's function that writes the notifications lacks its SDK
        queue.allow()
        return
    for event in to.types:
        imported.add_event_notification(_EVENTS[event], queue, *filters)
    imported.node.add_dependency(*to.after)
    _acknowledge_handler(to)


@jsii.implements(s3.IBucketNotificationDestination)
class _Queue:
    """The queue, in the form in which the CDK adds it to a bucket."""

    def __init__(self, to: Destination, bucket_arn: str) -> None:
        self._to = to
        self._bucket_arn = bucket_arn

    def bind(
        self,
        scope: Construct,  # noqa: ARG002 - the CDK's interface
        bucket: Any,  # noqa: ARG002
    ) -> s3.BucketNotificationDestinationConfig:
        """Let the bucket send to the queue."""
        return s3.BucketNotificationDestinationConfig(
            arn=self._to.queue.queue_arn,
            type=s3.BucketNotificationDestinationType.QUEUE,
            dependencies=self.allow(),
        )

    def allow(self) -> list[IDependable]:
        """Let the bucket send to the queue, and return the queue's policy."""
        return self._to.allow(
            "OnlyItsBucketSends",
            iam.ServicePrincipal("s3.amazonaws.com"),
            {
                "ArnEquals": {"aws:SourceArn": self._bucket_arn},
                "StringEquals": {"aws:SourceAccount": self._to.stack.account},
            },
        )


def _acknowledge_handler(to: Destination) -> None:
    handler = cast(Construct, to.stack.node.find_child(_HANDLER))
    reason = "The CDK's own function, which writes the notifications of a bucket at deployment."
    for rule in (
        "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
        "AWSLambdaBasicExecutionRole]",
        "AwsSolutions-IAM5[Resource::*]",
        "AwsSolutions-L1",
    ):
        acknowledge_finding(handler, rule, reason)
