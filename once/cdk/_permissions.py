"""Roles of the functions.

Policies are inline, so that a role never exists without them: Lambda rejects an event source
mapping that is created before the role may read its source.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk._key_permissions import key_statements
from once.cdk._table_permissions import allow, state_statements
from once.cdk._workflow_permissions import acknowledge_executions, workflow_statements
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.nag import acknowledge_finding, as_referenced, name_in_findings
from once.cdk.props import ConsumerProps
from once.settings import Dedup

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
NETWORK_ACTIONS = (
    *("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface"),
    *("ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"),
    *("ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"),
)
"""Lambda itself makes the network interfaces, with the function's role."""
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
    claims: "ClaimAccess | None",
    config: DeploymentConfig,
) -> iam.Role:
    """Return the role of a consumer's function, which reads `queues` and writes `tables`.

    The role may send messages to `isolation` (one of the queues, or None), read the secrets, and
    send e-mail from the deployment's address. `claims` is its access to large data.
    """
    local = config.local
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
    if isolation is not None:
        send = ["sqs:SendMessage", *(["sqs:SendMessageBatch"] if local else [])]
        statements.append(allow("Isolate", send, isolation.queue_arn))
    if secret_arns:
        statements.append(allow("ReadSecrets", ["secretsmanager:GetSecretValue"], *secret_arns))
    if consumer.sends_email:
        statements.append(_send_email(scope, config.email_sender, local=local))
    if claims is not None:
        statements += [*claims.read_statements(), *claims.write_statements()]
    statements += workflow_statements(scope, consumer.starts)
    state = tables if consumer.dedup is Dedup.ITEM else [dedup_table, *tables]
    uses = [
        *(("sqs", queue.encryption_master_key) for queue in (*queues, dead_letters)),
        *(("dynamodb", table.encryption_key) for table in state),
        *(("secretsmanager", key.arn) for key in [config.keys.secrets] if key and secret_arns),
        ("s3", None if claims is None else claims.bucket.encryption_key),
    ]
    statements += key_statements(scope, uses)
    role = make_role(scope, "Consumer", statements, config)
    acknowledge_executions(role, consumer.starts)
    if claims is not None:
        claims.acknowledge(role)
    if consumer.sends_email:
        acknowledge_finding(
            role,
            f"AwsSolutions-IAM5[Resource::{name_in_findings(scope, _identities(scope))}]",
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
    dedup_key: kms.IKey | None,
    config: DeploymentConfig,
) -> iam.Role:
    """Return the role of the function that publishes a stream's records to `topics`.

    Lambda uses it as well, to write failed batches into `failures`.
    """
    objects = failures.arn_for_objects("*")
    ours = {"StringEquals": {"s3:ResourceAccount": Stack.of(scope).account}}
    keep = ["s3:PutObject", "s3:ListBucket"]
    # On AWS this action includes batches; the embedded AWS has an action for batches.
    publish = ["sns:Publish", *(["sns:PublishBatch"] if config.local else [])]
    uses = [
        ("dynamodb", dedup_key),
        *(("sns", key.arn) for key in [config.keys.topics] if key),
        ("sqs", dead_letters.encryption_master_key),
        ("s3", failures.encryption_key),
    ]
    statements = [
        allow("ReadStream", STREAM_ACTIONS, stream_arn),
        allow("Publish", publish, *(topic.topic_arn for topic in topics)),
        allow("Quarantine", ["sqs:SendMessage"], dead_letters.queue_arn),
        allow("KeepFailures", keep, failures.bucket_arn, objects, conditions=ours),
        allow("Log", LOG_ACTIONS, log_group.log_group_arn),
        *key_statements(scope, uses),
    ]
    role = make_role(scope, "Relay", statements, config)
    bucket = as_referenced(scope, failures.bucket_arn)
    acknowledge_finding(
        role,
        f"AwsSolutions-IAM5[Resource::{name_in_findings(scope, bucket)}/*]",
        "Lambda itself names the objects that it writes into the bucket.",
    )
    return role


def sweep_role(
    scope: Construct,
    *,
    sweep: sqs.IQueue,
    unrouted: sqs.IQueue,
    log_group: logs.ILogGroup,
    config: DeploymentConfig,
) -> iam.Role:
    """Return the role of the function that reads `sweep` and sends to `unrouted`."""
    statements = [
        allow("ConsumeSweep", MAPPING_ACTIONS, sweep.queue_arn),
        allow("KeepUnrouted", ["sqs:SendMessage"], unrouted.queue_arn),
        allow("Log", LOG_ACTIONS, log_group.log_group_arn),
        *key_statements(scope, [("sqs", each.encryption_master_key) for each in (sweep, unrouted)]),
    ]
    return make_role(scope, "Sweep", statements, config)


def _send_email(scope: Construct, sender: str, *, local: bool) -> iam.PolicyStatement:
    if local:  # the embedded AWS checks neither identities nor the sender
        return allow("SendEmail", ["ses:SendEmail"], "*")
    only_as_sender = {"StringEquals": {"ses:FromAddress": sender}}
    return allow("SendEmail", ["ses:SendEmail"], _identities(scope), conditions=only_as_sender)


def _identities(scope: Construct) -> str:
    return Stack.of(scope).format_arn(service="ses", resource="identity", resource_name="*")


def make_role(
    scope: Construct,
    policy: str,
    statements: Sequence[iam.PolicyStatement],
    config: DeploymentConfig,
) -> iam.Role:
    """Return a role of a function with these statements in one inline policy.

    The policy also allows tracing, and network interfaces in the VPC if there is one.
    """
    every = [*statements, allow("Trace", TRACE_ACTIONS, "*")]
    if config.network is not None:
        every.append(allow("UseNetwork", NETWORK_ACTIONS, "*"))
    role = iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        inline_policies={policy: iam.PolicyDocument(statements=every)},
    )
    acknowledge_finding(
        role,
        "AwsSolutions-IAM5[Resource::*]",
        "X-Ray, and EC2 for the network interfaces of a function, have no resources that a policy "
        "could name for these actions.",
    )
    return role
