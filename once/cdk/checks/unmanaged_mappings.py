"""The check over the whole tree: every function behind a queue came from the construct."""

from collections.abc import Iterable, Iterator

from aws_cdk import aws_lambda as lambda_
from constructs import IConstruct

MARK = "once:idempotent-consumer"
"""Node metadata that `IdempotentConsumer` leaves: which tells its parts from all others."""


def strays_in(tree: Iterable[IConstruct]) -> Iterator[str]:
    """Yield a fault for each event source mapping on a queue that the construct did not make."""
    for construct in tree:
        if _reads_a_queue(construct) and not _came_from_the_construct(construct):
            yield (
                f"{construct.node.path}: a function reads a queue past IdempotentConsumer, without "
                "deduplication; give it a line in stacks/consumers.py instead"
            )


def _reads_a_queue(construct: IConstruct) -> bool:
    # Streams and Kafka must say where to start, Amazon MQ names its queues apart: SQS does neither.
    # So a queue is recognised even if its ARN is an import or a parameter.
    return (
        isinstance(construct, lambda_.CfnEventSourceMapping)
        and construct.starting_position is None
        and construct.queues is None
    )


def _came_from_the_construct(construct: IConstruct) -> bool:
    return any(
        entry.type == MARK for scope in construct.node.scopes for entry in scope.node.metadata
    )
