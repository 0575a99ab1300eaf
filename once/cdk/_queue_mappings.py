"""Event source mappings from a consumer's queues to its function."""

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk.props import ConsumerProps

ISOLATION_CONCURRENCY = 2
"""The least that Lambda accepts. Messages that end the function must not use up its concurrency."""


def map_queue(
    scope: Construct, props: ConsumerProps, target: lambda_.IFunction, queue: sqs.IQueue
) -> lambda_.EventSourceMapping:
    """Return the mapping from the main queue, in batches."""
    window = None if props.fifo else Duration.seconds(props.batch_window_seconds)
    return lambda_.EventSourceMapping(
        scope,
        "Mapping",
        target=target,
        event_source_arn=queue.queue_arn,
        batch_size=props.batch_size,
        max_batching_window=window,  # Lambda refuses one on a FIFO queue
        max_concurrency=props.max_concurrency,
        report_batch_item_failures=True,
    )


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
