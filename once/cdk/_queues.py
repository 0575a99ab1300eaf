"""Queues of Once, encrypted and reachable over TLS only, and their event source mappings.

They are retained, with the policies and subscriptions by which messages arrive.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from aws_cdk import CfnResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk.deployment_options import DeploymentConfig, imported_key
from once.cdk.props import ISOLATION_CONCURRENCY, ConsumerProps
from once.names import Limits


@dataclass(frozen=True, slots=True)
class ConsumerQueues:
    """The queues of a consumer; `isolation` is None if every batch holds one message."""

    main: sqs.IQueue
    isolation: sqs.Queue | None
    dead_letters: sqs.Queue

    @property
    def read(self) -> list[sqs.IQueue]:
        """The queues that its function reads."""
        return [self.main, *([self.isolation] if self.isolation else [])]


HOLDS_MESSAGES = frozenset(
    kind.CFN_RESOURCE_TYPE_NAME
    for kind in (
        *(sqs.CfnQueue, sqs.CfnQueuePolicy),
        *(sns.CfnTopic, sns.CfnTopicPolicy, sns.CfnSubscription),
    )
)
"""Resources whose deletion loses messages. Without its policy a queue gets no more events."""


def retain_messages(scope: Construct, config: DeploymentConfig) -> None:
    """Retain every queue, topic and subscription in a tree when its stack no longer has it.

    The embedded AWS is deleted as a whole, so nothing is retained there.
    """
    if config.local:
        return
    for each in scope.node.find_all():
        if isinstance(each, CfnResource) and each.cfn_resource_type in HOLDS_MESSAGES:
            # A deployment that fails deletes the queues it has just made. Retained, they would
            # keep their names from the next attempt.
            each.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)


_FIFO: dict[str, Any] = {
    "fifo": True,
    # Publishers give the deduplication id: a hash of the body differs if an event is written anew.
    "content_based_deduplication": False,
    # Both together are SQS's high throughput.
    "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP,
    "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
}


def queue_name(name: str, *, fifo: bool) -> str:
    """Return the physical name of a queue: AWS requires the suffix of a FIFO queue's."""
    return f"{name}.fifo" if fifo else name


def make_queue(
    scope: Construct,
    part: str,
    name: str | None,
    retention: int,
    *,
    config: DeploymentConfig,
    fifo: bool = False,
    **extra: Any,
) -> sqs.Queue:
    """Return a queue that keeps messages for `retention` seconds.

    `name` is without a suffix; None to have it generated.
    """
    key = config.keys.queues
    return sqs.Queue(
        scope,
        part,
        queue_name=name and queue_name(name, fifo=fifo),
        encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
        encryption_master_key=imported_key(scope, key),
        enforce_ssl=True,
        retention_period=Duration.seconds(retention),
        **(_FIFO if fifo else {}),
        **extra,
    )


def make_dead_letters(
    scope: Construct,
    name: str | None,
    *sources: str,
    config: DeploymentConfig,
    fifo: bool = False,
) -> sqs.Queue:
    """Return a dead-letter queue that only the queues with the physical names in `sources` may use.

    It must be a FIFO queue if these are.
    """
    retention = Limits.DEAD_LETTER_RETENTION_SECONDS
    queue = make_queue(scope, "DeadLetters", name, retention, config=config, fifo=fifo)
    # By name: as each source refers to this queue, a reference back would be circular.
    arns = [Stack.of(queue).format_arn(service="sqs", resource=name) for name in sources]
    policy = {"redrivePermission": "byQueue", "sourceQueueArns": arns}
    made = cast(sqs.CfnQueue, queue.node.default_child)
    made.redrive_allow_policy = policy if arns else {"redrivePermission": "denyAll"}
    return queue


_WINDOW = "MaximumBatchingWindowInSeconds"
ISOLATION_DEMANDS: dict[str, Any] = {
    "BatchSize": 1,
    "FunctionResponseTypes": ["ReportBatchItemFailures"],
    "ScalingConfig": {"MaximumConcurrency": ISOLATION_CONCURRENCY},
}


def mapping_demands(props: ConsumerProps) -> dict[str, Any]:
    """Return properties of the mapping from a consumer's main queue, as Lambda's API names them."""
    most, pollers = props.concurrency, props.pollers
    return {
        "BatchSize": props.batch_size,
        _WINDOW: 0 if props.fifo else props.batch_window_seconds,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": None if pollers else {"MaximumConcurrency": most},
        "ProvisionedPollerConfig": pollers
        and {"MinimumPollers": pollers.minimum, "MaximumPollers": pollers.maximum},
    }


def map_queue(
    scope: Construct,
    part: str,
    target: lambda_.IFunction,
    queue: sqs.IQueue,
    demands: Mapping[str, Any],
    *,
    metrics: bool = False,
    standby: bool = False,
) -> lambda_.EventSourceMapping:
    """Return a mapping with these properties; with `metrics`, Lambda counts its messages.

    With `standby` it is disabled.
    """
    event_count = lambda_.MetricsConfig(metrics=[lambda_.MetricType.EVENT_COUNT])
    mapping = lambda_.EventSourceMapping(
        scope,
        part,
        target=target,
        event_source_arn=queue.queue_arn,
        enabled=False if standby else None,
        metrics_config=event_count if metrics else None,
    )
    made = cast(lambda_.CfnEventSourceMapping, mapping.node.default_child)
    # Not by the construct's arguments: it refuses more than 2,000 pollers, and Lambda takes 10,000.
    for name, value in demands.items():
        # Lambda refuses a window on a FIFO queue.
        if value is not None and not (queue.fifo and name == _WINDOW):
            made.add_property_override(name, value)
    return mapping
