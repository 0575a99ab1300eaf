"""Queues: encrypted, and reachable over TLS only."""

from typing import Any

from aws_cdk import Duration
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


def make_dead_letters(scope: Construct, name: str) -> sqs.Queue:
    """Return the dead-letter queue of the function with this physical name."""
    retention = Limits.DEAD_LETTER_RETENTION_SECONDS
    return make_queue(scope, "DeadLetters", f"{name}-dead-letters", retention)
