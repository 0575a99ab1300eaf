"""Queues: encrypted, and reachable over TLS only."""

from typing import Any, cast

from aws_cdk import Duration, Stack
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.schema import Limits


def make_queue(scope: Construct, part: str, name: str, retention: int, **extra: Any) -> sqs.Queue:
    """Return a standard queue that keeps messages for `retention` seconds."""
    return sqs.Queue(
        scope,
        part,
        queue_name=name,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=Duration.seconds(retention),
        **extra,
    )


def make_dead_letters(scope: Construct, name: str, *sources: str) -> sqs.Queue:
    """Return the dead-letter queue of the function with this physical name.

    Args:
        scope: the construct that owns it.
        name: the name of the function.
        sources: the names of the queues from which SQS moves messages into it.
    """
    retention = Limits.DEAD_LETTER_RETENTION_SECONDS
    queue = make_queue(scope, "DeadLetters", f"{name}-dead-letters", retention)
    restrict_sources(queue, *sources)
    return queue


def restrict_sources(queue: sqs.Queue, *sources: str) -> None:
    """Let only the queues with these physical names use `queue` as their dead-letter queue."""
    # By name: as each source refers to this queue, a reference back would be circular.
    arns = [Stack.of(queue).format_arn(service="sqs", resource=name) for name in sources]
    policy = {"redrivePermission": "byQueue", "sourceQueueArns": arns}
    made = cast(sqs.CfnQueue, queue.node.default_child)
    made.redrive_allow_policy = policy if arns else {"redrivePermission": "denyAll"}
