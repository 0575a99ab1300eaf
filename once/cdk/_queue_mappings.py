"""Event source mappings from a consumer's queues to its function."""

from typing import cast

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk.props import ISOLATION_CONCURRENCY, ConsumerProps, Pollers

_EVENT_COUNT = lambda_.MetricsConfig(metrics=[lambda_.MetricType.EVENT_COUNT])


def map_queue(
    scope: Construct, props: ConsumerProps, target: lambda_.IFunction, queue: sqs.IQueue
) -> lambda_.EventSourceMapping:
    """Return the mapping from the main queue, in batches."""
    window = None if props.fifo else Duration.seconds(props.batch_window_seconds)
    mapping = lambda_.EventSourceMapping(
        scope,
        "Mapping",
        target=target,
        event_source_arn=queue.queue_arn,
        batch_size=props.batch_size,
        max_batching_window=window,  # Lambda refuses one on a FIFO queue
        max_concurrency=None if props.pollers else props.concurrency,
        report_batch_item_failures=True,
        metrics_config=_EVENT_COUNT if props.mapping_metrics else None,
    )
    if props.pollers is not None:
        _provision(mapping, props.pollers)
    return mapping


def map_isolation(
    scope: Construct, target: lambda_.IFunction, queue: sqs.IQueue
) -> lambda_.EventSourceMapping:
    """Return the mapping from the isolation queue, one message at a time."""
    return lambda_.EventSourceMapping(
        scope,
        "IsolationMapping",
        target=target,
        event_source_arn=queue.queue_arn,
        batch_size=1,
        max_concurrency=ISOLATION_CONCURRENCY,
        report_batch_item_failures=True,
    )


def _provision(mapping: lambda_.EventSourceMapping, pollers: Pollers) -> None:
    # The construct's own argument refuses more than 2,000 pollers, and Lambda takes 10,000.
    resource = cast(lambda_.CfnEventSourceMapping, mapping.node.default_child)
    resource.provisioned_poller_config = (
        lambda_.CfnEventSourceMapping.ProvisionedPollerConfigProperty(
            minimum_pollers=pollers.minimum, maximum_pollers=pollers.maximum
        )
    )
