"""Metrics of alarms and dashboard, and the parts of a consumer that they monitor."""

from collections.abc import Sequence
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


def share(
    service: str, counted: str, total: Sequence[str], period: Duration, *, at_least: int
) -> cloudwatch.MathExpression:
    """Return the share of one metric in percent; 0 while its own figure is under `at_least`.

    The counted metric is part of the total. The divisor is therefore never zero, which would give
    no figure if every commit conflicts.

    Args:
        service: the function's full name.
        counted: one of `once.metric_names.Metric`.
        total: the metrics of the total, with or without the counted one.
        period: the time that one figure covers.
        at_least: the count below which a share means nothing.
    """
    others = [once_metric(service, other, period) for other in total if other != counted]
    named = {f"other{number}": other for number, other in enumerate(others)}
    # A metric without events has no data, and a sum with missing data has none either.
    whole = " + ".join(["counted", *(f"FILL({name}, 0)" for name in named)])
    return cloudwatch.MathExpression(
        expression=f"IF(counted >= {at_least}, 100 * counted / ({whole}), 0)",
        using_metrics={"counted": once_metric(service, counted, period), **named},
        period=period,
        label=f"{counted}, percent",
    )


def messages(
    queue: sqs.IQueue, period: Duration, *, local: bool
) -> cloudwatch.Metric | cloudwatch.MathExpression:
    """Return the number of messages in a queue, those that a command hides included.

    Without the hidden ones, an alarm would end and begin again with every look at the letters. The
    embedded AWS rejects metric math: with `local`, only visible messages count.
    """
    visible = queue.metric_approximate_number_of_messages_visible(period=period, statistic=MAXIMUM)
    hidden = queue.metric_approximate_number_of_messages_not_visible(
        period=period, statistic=MAXIMUM
    )
    if local:
        return visible
    return cloudwatch.MathExpression(
        expression="visible + hidden",
        using_metrics={"visible": visible, "hidden": hidden},
        period=period,
        label="messages",
    )


def failed_batches(
    mapping_id: str, period: Duration, label: str | None = None
) -> cloudwatch.Metric:
    """Return the number of stream batches that were written into the bucket, unpublished."""
    return _mapping_metric("OnFailureDestinationDeliveredEventCount", mapping_id, period, label)


def never_handed_over(mapping_id: str, period: Duration) -> cloudwatch.MathExpression:
    """Return the messages received in a period in which none was handed over; otherwise 0."""
    return cloudwatch.MathExpression(
        expression="IF(FILL(invoked, 0) == 0, received, 0)",
        using_metrics={
            "received": _mapping_metric("PolledEventCount", mapping_id, period),
            "invoked": _mapping_metric("InvokedEventCount", mapping_id, period),
        },
        period=period,
        label="messages",
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


def _mapping_metric(
    name: str, mapping_id: str, period: Duration, label: str | None = None
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/Lambda",
        metric_name=name,
        dimensions_map={"EventSourceMappingUUID": mapping_id},
        period=period,
        statistic=SUM,
        label=label,
    )
