"""Check of a whole tree: each function that reads a queue was made by a construct of Once."""

from collections.abc import Iterable, Iterator

from aws_cdk import aws_lambda as lambda_
from constructs import IConstruct

CONSTRUCT_METADATA = "once:idempotent-consumer"
"""Type of the node metadata that marks the constructs whose functions may read a queue."""


def unmanaged_mapping_faults(tree: Iterable[IConstruct]) -> Iterator[str]:
    """Yield a fault for each event source mapping on a queue that no construct of Once made."""
    for construct in tree:
        if _reads_a_queue(construct) and not _is_managed(construct):
            yield (
                f"{construct.node.path}: a function reads a queue past IdempotentConsumer, without "
                "deduplication; make an IdempotentConsumer of it"
            )


def _reads_a_queue(construct: IConstruct) -> bool:
    # A mapping on a stream or Kafka has a starting position, and one on Amazon MQ names its queues.
    # One on SQS has neither, which also holds if its ARN is an import or a parameter.
    return (
        isinstance(construct, lambda_.CfnEventSourceMapping)
        and construct.starting_position is None
        and construct.queues is None
    )


def _is_managed(construct: IConstruct) -> bool:
    return any(
        entry.type == CONSTRUCT_METADATA
        for scope in construct.node.scopes
        for entry in scope.node.metadata
    )
