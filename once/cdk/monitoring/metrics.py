"""Metrics of alarms and dashboard, and the parts of a consumer that they monitor."""

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from once.cdk.props import ConsumerProps
from once.metric_names import Metric

SUM = "Sum"
MAXIMUM = "Maximum"
AVERAGE = "Average"
FAILED_BATCHES = "OnFailureDestinationDeliveredEventCount"
"""The stream batches that were written into the bucket, unpublished."""


class QueueGroups:
    """Metrics of SQS on the message groups of a queue.

    A group is noisy while it has a large share of the messages in flight. All others are quiet: on
    a fair queue, theirs are received first.
    """

    NOISY = "ApproximateNumberOfNoisyGroups"
    WAITING_IN_QUIET = "ApproximateNumberOfMessagesVisibleInQuietGroups"
    OLDEST_IN_QUIET = "ApproximateAgeOfOldestMessageInQuietGroups"
    IN_FLIGHT = "ApproximateNumberOfGroupsWithInflightMessages"
    """On FIFO queues. A group in flight waits for the messages that were received from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredConsumer:
    """A consumer: its name, its function's full name, the parts to watch, and its properties.

    `mapping`: the mapping of its queue, None without metrics of its own.
    """

    name: str
    service: str
    queue: sqs.IQueue
    isolation: sqs.IQueue | None
    dead_letters: sqs.IQueue
    function: lambda_.IFunction
    mapping: lambda_.IEventSourceMapping | None
    props: ConsumerProps


def once_metric(
    service: str, metric: str, period: Duration, statistic: str = SUM, label: str | None = None
) -> cloudwatch.Metric:
    """Return a metric that the library emits.

    Args:
        service: the function's full name, such as `once-orders`.
        metric: one of `once.metric_names.Metric`.
        period: the time that one figure covers.
        statistic: how the values of a period make one figure.
        label: its name in a graph; by default the metric's name.
    """
    return cloudwatch.Metric(
        namespace=Metric.NAMESPACE,
        metric_name=metric,
        # The only dimension: CloudWatch bills each further value.
        dimensions_map={"service": service},
        period=period,
        statistic=statistic,
        label=label,
    )


def groups_metric(
    queue: sqs.IQueue, name: str, period: Duration, label: str | None = None
) -> cloudwatch.Metric:
    """Return a metric of SQS on message groups, which the CDK has no method for.

    Args:
        queue: the queue.
        name: one of `QueueGroups`.
        period: the time that one figure covers.
        label: its name in a graph; by default the metric's name.
    """
    return cloudwatch.Metric(
        namespace="AWS/SQS",
        metric_name=name,
        dimensions_map={"QueueName": queue.queue_name},
        period=period,
        statistic=MAXIMUM,
        label=label,
    )


def mapping_metric(
    name: str, mapping_id: str, period: Duration, label: str | None = None
) -> cloudwatch.Metric:
    """Return a metric of Lambda on an event source mapping."""
    return cloudwatch.Metric(
        namespace="AWS/Lambda",
        metric_name=name,
        dimensions_map={"EventSourceMappingUUID": mapping_id},
        period=period,
        statistic=SUM,
        label=label,
    )
