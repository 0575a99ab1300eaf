"""Checks of constructs: the parts of an `IdempotentConsumer`, and the finished tree of an app.

Each fault states its remedy.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from aws_cdk import CfnOutput, CfnResource, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import IConstruct

from once.cdk.props import ConsumerProps
from once.cdk.topics import Topics
from once.schema import UNROUTED
from once.source import S3Source, ScheduleSource


@dataclass(frozen=True, slots=True)
class Wiring:
    """The parts that a consumer is given.

    Attributes:
        tables: the tables, by the names that its handlers use.
        secrets: the ARNs of the secrets, by the names in its properties.
        sources: the CloudEvents sources of each internal event type.
        queue: the existing queue; None if the construct makes one.
        topics: the topics that its own queue is subscribed to, if any.
        published: event types that the relay publishes for it; None without a relay.
        bucket: the bucket that sends its events, if it is not named by its source.
        claims: the claim-check bucket, if there is one.
    """

    tables: Mapping[str, dynamodb.ITable]
    secrets: Mapping[str, str]
    sources: Mapping[str, tuple[str, ...]]
    queue: sqs.IQueue | None
    topics: Topics | None
    published: Collection[str] | None
    bucket: s3.IBucket | None = None
    claims: s3.IBucket | None = None


def wiring_faults(props: ConsumerProps, wiring: Wiring) -> Iterator[str]:
    """Yield every fault of the parts, without the consumer's name."""
    if props.folder is None or not (props.folder / "handler.py").is_file():
        yield f"folder={props.folder}; give the path of the folder that holds its handler.py"
    for table in props.tables:
        if table.name not in wiring.tables:
            yield f"the table {table.name!r} is missing; add it to tables= of IdempotentConsumer"
    for secret in props.secrets:
        if secret not in wiring.secrets:
            yield f"the secret {secret!r} is missing; add its ARN to secrets= of IdempotentConsumer"
    if props.claim_check_mb and wiring.claims is None:
        yield (
            "it has claim_check_mb= and no bucket; give claims= of IdempotentConsumer a "
            "ClaimBucket, or leave claim_check_mb out"
        )
    yield from _event_faults(props, wiring)
    yield from _source_faults(props, wiring)
    yield from _topic_faults(props, wiring.topics)
    if wiring.queue is not None:
        yield from _queue_faults(props, wiring.queue)
        if wiring.topics is not None:
            yield (
                "it has queue= and topics=; subscribe the existing queue yourself and leave "
                "topics= out, or leave queue= out"
            )


def _event_faults(props: ConsumerProps, wiring: Wiring) -> Iterator[str]:
    for event in props.events:
        if not wiring.sources.get(event):
            yield (
                f"events has {event!r} without a source; give sources= the CloudEvents sources of "
                "its publishers, such as those of event_sources(), or declare it external="
            )
    if props.publishes and wiring.published is None:
        yield (
            "it publishes events, and they would stay in its outbox; give relay= an OutboxRelay, "
            "or leave publishes= out"
        )
    elif unpublished := set(props.publishes) - set(wiring.published or ()):
        yield (
            f"the relay does not publish {', '.join(sorted(unpublished))} for it; add the types to "
            f"publishes={{{props.identity!r}: …}} of OutboxRelay"
        )


def _source_faults(props: ConsumerProps, wiring: Wiring) -> Iterator[str]:
    named = isinstance(props.source, S3Source) and props.source.bucket is not None
    if wiring.bucket is not None and (named or not isinstance(props.source, S3Source)):
        yield "it has bucket=, which is for Source.s3() without a name; leave one of the two out"
    if wiring.queue is not None and isinstance(props.source, ScheduleSource):
        yield (
            "it has queue= and a schedule, which is not made for an existing queue; leave queue= "
            "out"
        )
    lacks_bucket = isinstance(props.source, S3Source) and not named and wiring.bucket is None
    if lacks_bucket and wiring.queue is None:
        yield "its source names no bucket; give Source.s3('name'), or bucket= of IdempotentConsumer"


def _topic_faults(props: ConsumerProps, topics: Topics | None) -> Iterator[str]:
    if topics is None or not props.fifo:
        return
    external, events = topics.ordered_ingress is None, topics.ordered_events is None
    if (props.external and external) or (props.events and events):
        yield (
            "fifo=True, and its topics= have no FIFO topic for its types; give its line, with all "
            "others, to Topics.make(…, consumers=…)"
        )


def _queue_faults(props: ConsumerProps, queue: sqs.IQueue) -> Iterator[str]:
    if queue.fifo and not props.fifo:
        yield (
            "its queue is FIFO, whose order the isolation queue would break; give fifo=True and "
            "ordered_by=, or a standard queue"
        )
    if props.fifo and not queue.fifo:
        yield (
            "fifo=True, and its queue is a standard one; give a FIFO queue (imported by a token: "
            "with Queue.from_queue_attributes(…, fifo=True)), or leave fifo out"
        )
    made = queue.node.default_child
    if not isinstance(made, sqs.CfnQueue):
        return  # imported: CloudFormation does not know its attributes
    visibility = 30 if made.visibility_timeout is None else made.visibility_timeout
    if visibility < props.visibility:
        yield (
            f"its queue has a visibility timeout of {visibility:.0f} s; raise it to "
            f"{props.visibility}: 6 × timeout + batch window"
        )


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


RESOURCES, OUTPUTS = 500, 200
"""CloudFormation's quotas for one stack, which cannot be raised."""


@dataclass(slots=True)
class _Contents:
    """The resources of a stack, and the number of its outputs."""

    resources: list[IConstruct] = field(default_factory=list)
    outputs: int = 0


def stack_size_faults(tree: Iterable[IConstruct]) -> Iterator[str]:
    """Yield a fault for each stack that exceeds a quota of CloudFormation, with its remedy."""
    for name, stack in _stacks(tree).items():
        for count, quota, what in (
            (len(stack.resources), RESOURCES, "resources"),
            (stack.outputs, OUTPUTS, "outputs"),
        ):
            if count > quota:
                fault = f"{count} {what}, and CloudFormation takes {quota}"
                yield f"{name}: {fault}; {_remedy(stack)}"


def _stacks(tree: Iterable[IConstruct]) -> dict[str, _Contents]:
    found: dict[str, _Contents] = defaultdict(_Contents)
    for construct in tree:
        if isinstance(construct, CfnResource):
            found[Stack.of(construct).stack_name].resources.append(construct)
        elif isinstance(construct, CfnOutput):
            found[Stack.of(construct).stack_name].outputs += 1
    return found


def _remedy(stack: _Contents) -> str:
    owners = Counter(_consumer_of(resource) for resource in stack.resources)
    others = owners.pop(None, 0)
    if not owners:
        return "move some of them to another stack"
    fit = (RESOURCES - others) // max(owners.values())
    return (
        f"of its {len(owners)} consumers about {fit} fit: move the others, with the publishers of "
        "the events that they take, to a deployment of their own (another registry, and another "
        "name with -c service=…)"
    )


def _consumer_of(construct: IConstruct) -> str | None:
    """Return the path of the consumer that a construct is part of."""
    for scope in reversed(construct.node.scopes):
        for entry in scope.node.metadata:
            if entry.type == CONSTRUCT_METADATA and entry.data != UNROUTED:
                return scope.node.path
    return None
