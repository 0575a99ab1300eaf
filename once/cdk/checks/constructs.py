"""Checks of constructs: the parts that one is given, and the finished tree of an app.

Each fault states its remedy.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from aws_cdk import CfnOutput, CfnResource, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import IConstruct

from once.cdk.checks import faults_where
from once.cdk.checks.handlers_in_code import has_handler
from once.cdk.checks.property_types import has_type
from once.cdk.props import MESSAGE_BODY_BYTES, CommandProps, ConsumerProps, Line, WebhookProps
from once.cdk.topics import Topics
from once.event_sources import S3Source, ScheduleSource
from once.names import UNROUTED, Limits, QueueRule, explained_by


def wiring_faults(
    props: ConsumerProps,
    *,
    tables: Mapping[str, dynamodb.ITable],
    secrets: Collection[str],
    sources: Mapping[str, tuple[str, ...]],
    queue: sqs.IQueue | None,
    topics: Topics | None,
    published: Collection[str] | None,
    bucket: s3.IBucket | None,
    claims: s3.IBucket | None,
) -> Iterator[str]:
    """Yield every fault of the parts that a consumer is given, without the consumer's name.

    The names in `tables`, `secrets` and `sources` are those of its properties. `queue`
    is an existing one. `published` are the types that the relay publishes for it, None without one.
    """
    yield from _folder_faults(props)
    yield from _table_faults(props, tables, "IdempotentConsumer")
    for secret in props.secrets:
        if secret not in secrets:
            yield f"the secret {secret!r} is missing; add its ARN to secrets= of IdempotentConsumer"
    yield from (
        f"events has {event!r} without a source; give sources= the CloudEvents sources of its "
        "publishers, such as those of event_sources(), or declare it external="
        for event in props.events
        if not sources.get(event)
    )
    yield from _relay_faults(props.publishes, published, "leave publishes= out")
    source = props.source
    lacks_bucket = isinstance(source, S3Source) and source.bucket is None
    lacks_topic = topics is not None and (
        (props.external and topics.ordered_ingress is None)
        or (props.events and topics.ordered_events is None)
    )
    yield from faults_where(
        {
            "it has claim_check_mb= and no bucket; give claims= of IdempotentConsumer a "
            "ClaimBucket, or leave claim_check_mb out": props.claim_check_mb and claims is None,
            "fifo=True, and its topics= have no FIFO topic for its types; give its line, with all "
            "others, to Topics.make(…, consumers=…)": props.fifo and lacks_topic,
            "it has bucket=, which is for Source.s3() without a name; leave one of the two "
            "out": bucket is not None and not lacks_bucket,
            "its source names no bucket; give Source.s3('name'), or bucket= of "
            "IdempotentConsumer": lacks_bucket and bucket is None and queue is None,
        }
    )
    if queue is not None:
        yield from _queue_faults(props, queue, topics)


def _queue_faults(props: ConsumerProps, queue: sqs.IQueue, topics: Topics | None) -> Iterator[str]:
    rules = props.queue_rules
    least, longest = rules[QueueRule.RECEIVES], rules[QueueRule.RETENTION]
    visibility, retention, size = float(props.visibility), 0.0, float(Limits.MESSAGE_BYTES)
    made = queue.node.default_child
    # Of an imported queue, none of these is known: `once status` reads them.
    if isinstance(made, sqs.CfnQueue):
        visibility = 30 if made.visibility_timeout is None else made.visibility_timeout
        retention = made.message_retention_period or 0
        size = made.maximum_message_size or size
    letters = queue.dead_letter_queue if isinstance(queue, sqs.Queue) else None
    receives = least if letters is None else letters.max_receive_count
    yield from faults_where(
        {
            "it has queue= and a schedule, which is not made for an existing queue; leave queue= "
            "out": isinstance(props.source, ScheduleSource),
            "its queue is FIFO, whose order the isolation queue would break; give fifo=True and "
            "ordered_by=, or a standard queue": queue.fifo and not props.fifo,
            "fifo=True, and its queue is a standard one; give a FIFO queue (imported by a token: "
            "with Queue.from_queue_attributes(…, fifo=True)), or leave fifo "
            "out": props.fifo and not queue.fifo,
            f"its queue has a visibility timeout of {visibility:.0f} s; raise it to "
            f"{props.visibility}: 6 × timeout + batch window": visibility < props.visibility,
            f"its queue keeps messages for {retention:.0f} s; lower its retention to {longest}, "
            "with which the dedup window counts": retention > longest,
            f"its queue takes messages of {size:.0f} bytes; raise its maximum message size to "
            f"{Limits.MESSAGE_BYTES}, which an isolated or redriven message may "
            "have": size < Limits.MESSAGE_BYTES,
            f"its queue has a maxReceiveCount of {receives:.0f}; raise it to {least}, or SQS "
            "dead-letters messages before the function can state the reason": receives < least,
            "it has queue= and topics=; subscribe the existing queue yourself and leave topics= "
            "out, or leave queue= out": topics is not None,
        }
    )


def webhook_wiring_faults(
    props: WebhookProps,
    secrets: Mapping[str, str],
    published: Mapping[str, tuple[str, ...]] | None,
    claims: s3.IBucket | None,
) -> Iterator[str]:
    """Yield every fault of an ingress's parts, without its name.

    With properties of wrong types, which are faults of their own, they are not compared.
    `published` are the types that the relay publishes, by identity; None without a relay.
    """
    if not has_type(props, WebhookProps):
        return
    yield from _folder_faults(props)
    yield from (
        f"the secret of endpoint {each.name!r} is missing; add its ARN to secrets= of "
        "WebhookFunction"
        for each in props.endpoints
        if each.name not in secrets
    )
    own = None if published is None else published.get(props.name, ())
    yield from _relay_faults(props.publishes, own, "give the endpoints no types=")
    if props.needs_claims and claims is None:
        yield (
            f"its endpoints take bodies of {props.largest_body} bytes, and a message holds "
            f"{MESSAGE_BODY_BYTES}; give claims= of WebhookFunction a ClaimBucket, or the "
            "endpoints a smaller body_bytes="
        )


def _relay_faults(
    types: Collection[str], published: Collection[str] | None, otherwise: str
) -> Iterator[str]:
    """Yield the fault of types that the relay does not publish; `published` is None without one."""
    if types and published is None:
        yield (
            "it publishes events, and they would stay in its outbox; give relay= an OutboxRelay, "
            f"or {otherwise}"
        )
    elif unpublished := set(types) - set(published or ()):
        yield (
            f"the relay does not publish {', '.join(sorted(unpublished))} for it; give publishes= "
            "of OutboxRelay what published_types(lines) returns"
        )


def later_type_faults(props: ConsumerProps | CommandProps, later: Collection[str]) -> Iterator[str]:
    """Yield the fault of types that the relay, which publishes `later` ones, would not schedule."""
    if unknown := {*props.publishes_later} - {*later}:
        yield (
            f"the relay does not publish {', '.join(sorted(unknown))} later; give publishes_later= "
            "of OutboxRelay what later_types(lines) returns"
        )


def command_wiring_faults(
    props: CommandProps,
    tables: Mapping[str, dynamodb.ITable],
    published: Mapping[str, tuple[str, ...]] | None,
) -> Iterator[str]:
    """Yield every fault of the parts of commands, as `webhook_wiring_faults` of an ingress."""
    if not has_type(props, CommandProps):
        return
    yield from _folder_faults(props)
    yield from _table_faults(props, tables, "CommandFunction")
    own = None if published is None else published.get(props.name, ())
    yield from _relay_faults(props.publishes, own, "leave publishes= out")


def _table_faults(
    props: ConsumerProps | CommandProps, tables: Mapping[str, dynamodb.ITable], construct: str
) -> Iterator[str]:
    for table in props.tables:
        if table.name not in tables:
            yield f"the table {table.name!r} is missing; add it to tables= of {construct}"
            continue
        made = tables[table.name].node.default_child
        if not isinstance(made, dynamodb.CfnTable | dynamodb.CfnGlobalTable):
            continue  # of an imported table, the key is not known
        resolve = Stack.of(made).resolve
        types = {
            each["attributeName"]: each["attributeType"]
            for each in resolve(made.attribute_definitions)
        }
        key = tuple(each["attributeName"] for each in resolve(made.key_schema))
        if key != table.keys:
            yield (
                f"the table {table.name!r} has the key {', '.join(key)}, and its line "
                f"{', '.join(table.keys)}; give TableProps the attributes of the table's key"
            )
        elif wrong := [name for name in key if types[name] != "S"]:
            yield (
                f"the key {', '.join(wrong)} of the table {table.name!r} is not a string; give a "
                "table whose key attributes are of the type STRING"
            )


def _folder_faults(props: Line) -> Iterator[str]:
    if not has_handler(props.folder):
        yield f"folder={props.folder}; give the path of the folder that holds its handler.py"


CONSTRUCT_METADATA = "once:idempotent-consumer"
"""Type of the node metadata that marks the constructs whose functions may read a queue."""


def unmanaged_mapping_faults(tree: Iterable[IConstruct]) -> Iterator[str]:
    """Yield a fault for each event source mapping on a queue that no construct of Once made."""
    for construct in tree:
        # A mapping on a stream or Kafka has a starting position, and one on Amazon MQ names its
        # queues. One on SQS has neither, which also holds if its ARN is an import or a parameter.
        reads_a_queue = (
            isinstance(construct, lambda_.CfnEventSourceMapping)
            and construct.starting_position is None
            and construct.queues is None
        )
        if reads_a_queue and not _marks(construct):
            yield (
                f"{construct.node.path}: a function reads a queue past IdempotentConsumer, without "
                "deduplication; make an IdempotentConsumer of it"
            )


def _marks(construct: IConstruct) -> set[str]:
    entries = (entry for scope in construct.node.scopes for entry in scope.node.metadata)
    return {entry.data for entry in entries if entry.type == CONSTRUCT_METADATA}


RESOURCES, OUTPUTS = 500, 200
"""CloudFormation's quotas for one stack, which cannot be raised."""


def stack_size_faults(tree: Iterable[IConstruct]) -> Iterator[str]:
    """Yield a fault for each stack that exceeds a quota of CloudFormation, with its remedy."""
    contents: dict[str, dict[str, list[IConstruct]]] = defaultdict(lambda: defaultdict(list))
    for construct in tree:
        if isinstance(construct, CfnResource | CfnOutput):
            kind = "resources" if isinstance(construct, CfnResource) else "outputs"
            contents[Stack.of(construct).stack_name][kind].append(construct)
    for name, parts in contents.items():
        for what, quota in (("resources", RESOURCES), ("outputs", OUTPUTS)):
            if (count := len(parts[what])) <= quota:
                continue
            remedy = "move some of them to another stack"
            owners = [_marks(each) - {UNROUTED} for each in parts["resources"]]
            if consumers := set().union(*owners):
                own = sum(map(bool, owners))
                fit = (RESOURCES - len(owners) + own) * len(consumers) // own
                remedy = (
                    f"of its {len(consumers)} consumers about {fit} fit: set "
                    f"consumers_per_stack={fit} in DeploymentConfig, which gives new ones a "
                    "further stack; to move a deployed one there, rename it "
                    f"({explained_by('rename-or-remove-a-consumer')})"
                )
            yield f"{name}: {count} {what}, and CloudFormation takes {quota}; {remedy}"
