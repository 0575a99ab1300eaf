"""Roles of the functions.

IAM has no permission for transactions: each write in one is checked as the plain write it is. The
condition on `dynamodb:EnclosingOperation` turns that round and refuses the plain write.
`ForAnyValue` is the form to use: `ForAllValues` is also true when the key is missing, which is what
a plain `PutItem` looks like. `ConditionCheckItem` stands alone, without the condition, because it
exists in transactions only.

All consumers share the dedup table, and each may only touch records whose key begins with its own
name: another's record decides what that one does next, and which events are published for it. No
function deletes a record, and only the effect ledger updates one.

Policies are inline, so that a role never exists without them: an event source mapping is refused
when it comes before the rights to read its source.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk.nag import acknowledge_finding
from once.cdk.props import ConsumerProps

ONLY_IN_TRANSACTIONS = {
    "ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
}

PUT, UPDATE = "dynamodb:PutItem", "dynamodb:UpdateItem"
WRITES = (PUT, UPDATE, "dynamodb:DeleteItem")
READS = ("dynamodb:GetItem", "dynamodb:BatchGetItem")
MAPPING_ACTIONS = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
QUEUE_ACTIONS = (
    *MAPPING_ACTIONS,  # the function itself deletes what is settled before a handler runs
    "sqs:ChangeMessageVisibility",  # the function's own, to delay a retry
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
    local: bool,
) -> iam.Role:
    """Return the role of a consumer's function, which reads `queues` and writes `tables`.

    It may move messages into `isolation`, which is one of the queues or None, read those secrets,
    and send e-mail from the address `sender` if there is one.
    """
    # On AWS the right to one message is also that to a batch; the embedded one has two.
    consume = [*QUEUE_ACTIONS, *(["sqs:DeleteMessageBatch"] if local and isolation else [])]
    statements = [
        *_dedup_statements(consumer, dedup_table.table_arn, local=local),
        *_table_statements([table.table_arn for table in tables]),
        _allow("ConsumeOwnQueues", consume, *(queue.queue_arn for queue in queues)),
        _allow("Quarantine", ["sqs:SendMessage"], dead_letters.queue_arn),
        _allow("Log", LOG_ACTIONS, log_group.log_group_arn),
    ]
    keys = [key.key_arn for queue in queues if (key := queue.encryption_master_key)]
    if keys:  # an existing queue may be encrypted with a key of its owner
        statements.append(_allow("DecryptMessages", ["kms:Decrypt"], *keys))
    if isolation is not None:
        send = ["sqs:SendMessage", *(["sqs:SendMessageBatch"] if local else [])]
        statements.append(_allow("Isolate", send, isolation.queue_arn))
    if secret_arns:
        statements.append(_allow("ReadSecrets", ["secretsmanager:GetSecretValue"], *secret_arns))
    if sender is not None:
        statements.append(_send_email(scope, sender, local=local))
    role = _role(scope, "Consumer", statements)
    if sender is not None:
        acknowledge_finding(
            role,
            "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>:identity/*]",
            "SES may also check the identity of who receives, as its sandbox does; the condition "
            "holds the sender to one address.",
        )
    return role


def _dedup_statements(
    consumer: ConsumerProps, arn: str, *, local: bool
) -> list[iam.PolicyStatement]:
    own = _own_records(consumer.name, local=local)
    writes = [PUT, *([UPDATE] if consumer.has_effects else [])]
    conditions = {**ONLY_IN_TRANSACTIONS, **own}
    return [
        _allow("WriteOwnRecordsInTransactions", writes, arn, conditions=conditions),
        _allow("ReadOwnRecords", READS, arn, conditions=own),
    ]


def _own_records(consumer: str, *, local: bool) -> dict[str, Any]:
    own = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{consumer}#*"]}}
    if local:  # the embedded AWS does not know the key, and would deny each request for lack of it
        return own
    # `ForAllValues` is true where the key is missing: `Null` demands that it is there.
    return {**own, "Null": {"dynamodb:LeadingKeys": "false"}}


def _table_statements(arns: Sequence[str]) -> list[iam.PolicyStatement]:
    if not arns:
        return []
    return [
        _allow("WriteInTransactions", WRITES, *arns, conditions=ONLY_IN_TRANSACTIONS),
        _allow("CheckInTransactions", ["dynamodb:ConditionCheckItem"], *arns),
        _allow("Read", READS, *arns),
    ]


def relay_role(
    scope: Construct,
    *,
    stream_arn: str,
    topic: sns.ITopic,
    dead_letters: sqs.IQueue,
    failures: s3.IBucket,
    log_group: logs.ILogGroup,
    local: bool,
) -> iam.Role:
    """Return the role of the function that publishes a stream's records to `topic`.

    Lambda itself writes with it into `failures`, whole batches that were given up.
    """
    objects = failures.arn_for_objects("*")
    ours = {"StringEquals": {"s3:ResourceAccount": Stack.of(scope).account}}
    keep = ["s3:PutObject", "s3:ListBucket"]
    # On AWS the right to publish is also that to publish in batches; the embedded one has two.
    publish = ["sns:Publish", *(["sns:PublishBatch"] if local else [])]
    statements = [
        _allow("ReadStream", STREAM_ACTIONS, stream_arn),
        _allow("Publish", publish, topic.topic_arn),
        _allow("Quarantine", ["sqs:SendMessage"], dead_letters.queue_arn),
        _allow("KeepFailures", keep, failures.bucket_arn, objects, conditions=ours),
        _allow("Log", LOG_ACTIONS, log_group.log_group_arn),
    ]
    role = _role(scope, "Relay", statements)
    acknowledge_finding(
        role,
        f"AwsSolutions-IAM5[Resource::{_arn_in_findings(scope, failures)}/*]",
        "Lambda itself names the objects that it writes into the bucket.",
    )
    return role


def sweep_role(
    scope: Construct, *, sweep: sqs.IQueue, unrouted: sqs.IQueue, log_group: logs.ILogGroup
) -> iam.Role:
    """Return the role of the function that reads `sweep` and sends to `unrouted`."""
    statements = [
        _allow("ConsumeSweep", MAPPING_ACTIONS, sweep.queue_arn),
        _allow("KeepUnrouted", ["sqs:SendMessage"], unrouted.queue_arn),
        _allow("Log", LOG_ACTIONS, log_group.log_group_arn),
    ]
    return _role(scope, "Sweep", statements)


def _send_email(scope: Construct, sender: str, *, local: bool) -> iam.PolicyStatement:
    if local:  # the embedded AWS looks at neither identities nor the sender
        return _allow("SendEmail", ["ses:SendEmail"], "*")
    identities = Stack.of(scope).format_arn(service="ses", resource="identity", resource_name="*")
    only_as_sender = {"StringEquals": {"ses:FromAddress": sender}}
    return _allow("SendEmail", ["ses:SendEmail"], identities, conditions=only_as_sender)


def _arn_in_findings(scope: Construct, bucket: s3.IBucket) -> str:
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


def _role(scope: Construct, policy: str, statements: Sequence[iam.PolicyStatement]) -> iam.Role:
    every = [*statements, _allow("Trace", TRACE_ACTIONS, "*")]
    role = iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        inline_policies={policy: iam.PolicyDocument(statements=every)},
    )
    acknowledge_finding(
        role,
        "AwsSolutions-IAM5[Resource::*]",
        "What is sent to X-Ray belongs to no resource: IAM knows none to name there.",
    )
    return role


def _allow(
    sid: str,
    actions: Sequence[str],
    *resources: str,
    conditions: Mapping[str, Any] | None = None,
) -> iam.PolicyStatement:
    # Statements with a name are never merged: a condition stays with its own actions.
    return iam.PolicyStatement(
        sid=sid, actions=list(actions), resources=list(resources), conditions=conditions
    )
