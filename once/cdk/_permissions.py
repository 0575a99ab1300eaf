"""Roles of the functions.

Policies are inline, so that a role never exists without them: Lambda rejects an event source
mapping that is created before the role may read its source.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk._table_permissions import allow, state_statements
from once.cdk._workflow_permissions import acknowledge_executions, workflow_statements
from once.cdk.nag import acknowledge_finding
from once.cdk.props import ConsumerProps

if TYPE_CHECKING:
    from once.cdk.claim_bucket import ClaimAccess
MAPPING_ACTIONS = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
QUEUE_ACTIONS = (
    *MAPPING_ACTIONS,  # the function deletes messages that are settled before a handler runs
    "sqs:ChangeMessageVisibility",  # the function delays a retry with it
)
STREAM_ACTIONS = (
    *("dynamodb:GetRecords", "dynamodb:GetShardIterator"),
    *("dynamodb:DescribeStream", "dynamodb:ListStreams"),
)
LOG_ACTIONS = ("logs:CreateLogStream", "logs:PutLogEvents")
TRACE_ACTIONS = ("xray:PutTraceSegments", "xray:PutTelemetryRecords")


def consumer_role(
    scope: Construct,
    *,
    consumer: ConsumerProps,
    dedup_table: dynamodb.ITable,
    tables: Sequence[dynamodb.ITable],
    queues: Sequence[sqs.IQueue],
    isolation: sqs.IQueue | None,
    dead_letters: sqs.IQueue,
    log_group: logs.ILogGroup,
    secret_arns: Sequence[str],
    sender: str | None,
    claims: "ClaimAccess | None",
    local: bool,
) -> iam.Role:
    """Return the role of a consumer's function, which reads `queues` and writes `tables`.

    The role may send messages to `isolation` (one of the queues, or None), read the secrets, and
    send e-mail from the address `sender` if it is given. `claims` is its access to large data.
    """
    # On AWS this action includes batches; the embedded AWS has an action for batches.
    deletes = isolation is not None or consumer.fifo
    consume = [*QUEUE_ACTIONS, *(["sqs:DeleteMessageBatch"] if local and deletes else [])]
    statements = [
        *state_statements(
            consumer,
            dedup_table.table_arn,
            [table.table_arn for table in tables],
            local=local,
        ),
        allow("ConsumeOwnQueues", consume, *(queue.queue_arn for queue in queues)),
        allow("Quarantine", ["sqs:SendMessage"], dead_letters.queue_arn),
        allow("Log", LOG_ACTIONS, log_group.log_group_arn),
    ]
    keys = [key.key_arn for queue in queues if (key := queue.encryption_master_key)]
    if keys:  # an existing queue may be encrypted with a customer managed key
        statements.append(allow("DecryptMessages", ["kms:Decrypt"], *keys))
    if isolation is not None:
        send = ["sqs:SendMessage", *(["sqs:SendMessageBatch"] if local else [])]
        statements.append(allow("Isolate", send, isolation.queue_arn))
    if secret_arns:
        statements.append(allow("ReadSecrets", ["secretsmanager:GetSecretValue"], *secret_arns))
    if sender is not None:
        statements.append(_send_email(scope, sender, local=local))
    if claims is not None:
        statements += [*claims.read_statements(), *claims.write_statements()]
    statements += workflow_statements(scope, consumer.starts)
    role = make_role(scope, "Consumer", statements)
    acknowledge_executions(role, consumer.starts)
    if claims is not None:
        claims.acknowledge(role)
    if sender is not None:
        acknowledge_finding(
            role,
            "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>:identity/*]",
            "SES may also check the recipient's identity, as in its sandbox; the condition "
            "restricts the sender to one address.",
        )
    return role


def relay_role(
    scope: Construct,
    *,
    stream_arn: str,
    topics: Sequence[sns.ITopic],
    dead_letters: sqs.IQueue,
    failures: s3.IBucket,
    log_group: logs.ILogGroup,
    local: bool,
) -> iam.Role:
    """Return the role of the function that publishes a stream's records to `topics`.

    Lambda uses it as well, to write failed batches into `failures`.
    """
    objects = failures.arn_for_objects("*")
    ours = {"StringEquals": {"s3:ResourceAccount": Stack.of(scope).account}}
    keep = ["s3:PutObject", "s3:ListBucket"]
    # On AWS this action includes batches; the embedded AWS has an action for batches.
    publish = ["sns:Publish", *(["sns:PublishBatch"] if local else [])]
    statements = [
        allow("ReadStream", STREAM_ACTIONS, stream_arn),
        allow("Publish", publish, *(topic.topic_arn for topic in topics)),
        allow("Quarantine", ["sqs:SendMessage"], dead_letters.queue_arn),
        allow("KeepFailures", keep, failures.bucket_arn, objects, conditions=ours),
        allow("Log", LOG_ACTIONS, log_group.log_group_arn),
    ]
    role = make_role(scope, "Relay", statements)
    acknowledge_finding(
        role,
        f"AwsSolutions-IAM5[Resource::{arn_in_findings(scope, failures)}/*]",
        "Lambda itself names the objects that it writes into the bucket.",
    )
    return role


def sweep_role(
    scope: Construct, *, sweep: sqs.IQueue, unrouted: sqs.IQueue, log_group: logs.ILogGroup
) -> iam.Role:
    """Return the role of the function that reads `sweep` and sends to `unrouted`."""
    statements = [
        allow("ConsumeSweep", MAPPING_ACTIONS, sweep.queue_arn),
        allow("KeepUnrouted", ["sqs:SendMessage"], unrouted.queue_arn),
        allow("Log", LOG_ACTIONS, log_group.log_group_arn),
    ]
    return make_role(scope, "Sweep", statements)


def _send_email(scope: Construct, sender: str, *, local: bool) -> iam.PolicyStatement:
    if local:  # the embedded AWS checks neither identities nor the sender
        return allow("SendEmail", ["ses:SendEmail"], "*")
    identities = Stack.of(scope).format_arn(service="ses", resource="identity", resource_name="*")
    only_as_sender = {"StringEquals": {"ses:FromAddress": sender}}
    return allow("SendEmail", ["ses:SendEmail"], identities, conditions=only_as_sender)


def arn_in_findings(scope: Construct, bucket: s3.IBucket) -> str:
    """Return how findings name the bucket's ARN: by its reference, or by its export."""
    value: Any = bucket.bucket_arn
    if bucket.stack.node.path != Stack.of(scope).node.path:
        value = bucket.stack.export_value(value)
    match bucket.stack.resolve(value):
        case {"Fn::ImportValue": name}:
            return str(name)
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case arn:
            return str(arn)


def make_role(scope: Construct, policy: str, statements: Sequence[iam.PolicyStatement]) -> iam.Role:
    """Return a role of a function with these statements in one inline policy, and tracing."""
    every = [*statements, allow("Trace", TRACE_ACTIONS, "*")]
    role = iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        inline_policies={policy: iam.PolicyDocument(statements=every)},
    )
    acknowledge_finding(
        role,
        "AwsSolutions-IAM5[Resource::*]",
        "X-Ray has no resources that a policy could name for these actions.",
    )
    return role
