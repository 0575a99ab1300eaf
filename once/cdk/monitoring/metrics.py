"""Metrics of alarms and dashboard, and the parts of a consumer that they monitor."""

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from once.cdk.props import ConsumerProps
from once.names import Metric

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
    """Return a metric that the library emits; `service` is the function's full name."""
    # The only dimension: CloudWatch bills each further value.
    dimension = {"service": service}
    return _metric(Metric.NAMESPACE, metric, dimension, period, statistic, label)


def groups_metric(
    queue: sqs.IQueue, name: str, period: Duration, label: str | None = None
) -> cloudwatch.Metric:
    """Return one of `QueueGroups`, which the CDK has no methods for."""
    return _metric("AWS/SQS", name, {"QueueName": queue.queue_name}, period, MAXIMUM, label)


def mapping_metric(
    name: str, mapping: lambda_.IEventSourceMapping, period: Duration, label: str | None = None
) -> cloudwatch.Metric:
    """Return a metric of Lambda on an event source mapping."""
    dimension = {"EventSourceMappingUUID": mapping.event_source_mapping_id}
    return _metric("AWS/Lambda", name, dimension, period, SUM, label)


def _metric(
    namespace: str,
    name: str,
    dimension: dict[str, str],
    period: Duration,
    statistic: str,
    label: str | None,
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dimension,
        period=period,
        statistic=statistic,
        label=label,
    )
