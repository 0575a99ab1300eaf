"""Permissions of the functions: the statements that allow each use, and the role of a function.

Policies are inline, so that a role never exists without them: Lambda rejects an event source
mapping that is created before the role may read its source.

IAM has no permission for transactions: it checks each write in a transaction as a plain write. The
condition on `dynamodb:EnclosingOperation` allows writes inside a transaction only. It needs
`ForAnyValue`: `ForAllValues` is also true if the key is missing, as in a plain `PutItem`.
`ConditionCheckItem` has no condition, because it exists in transactions only.

All consumers share the dedup table. Each may only access records whose key begins with its own
identity, because a record decides how its consumer treats an event, and which events are published
for it. No function deletes a record, and only consumers with effects update one.

A consumer with item dedup has no access to the dedup table. Where each message commits alone, its
writes need no transaction. They must name a dedup record of the consumer instead, so that IAM
denies a handler's own write without one.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aws_cdk import Arn, ArnFormat, Fn, Reference, Stack, Tokenization
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from once.cdk._queues import ConsumerQueues
from once.cdk.deployment_options import CustomerKey, DeploymentConfig
from once.cdk.nag import acknowledge_pattern, as_referenced
from once.cdk.props import ConsumerProps, DurableFunctionProps, StateMachineProps, WorkflowProps
from once.cdk.synth_error import SynthError
from once.names import EXECUTION_PREFIX, PRODUCER_OBJECTS, SOURCE_PREFIX, consumer_objects
from once.settings import ITEM_RECORD_PREFIX, Dedup

POLICY_CHARACTERS = 6144
"""IAM's limit for a managed policy, without white space."""

ROLE_CHARACTERS = 10_240
"""IAM's limit for all inline policies of a role together."""
_SETTINGS_CHARACTERS = 340
"""Of the policy that reads stored settings, which is a second one of a role."""

ONLY_IN_TRANSACTIONS = {
    "ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
}
PUT, UPDATE = "dynamodb:PutItem", "dynamodb:UpdateItem"
LOOK_UP = "dynamodb:BatchGetItem"
READS = ("dynamodb:GetItem", LOOK_UP)
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

_LONGEST = {
    "AWS::Partition": "aws-us-gov",
    "AWS::Region": "ap-southeast-2",
    "AWS::AccountId": "111122223333",
    "AWS::URLSuffix": "amazonaws.com.cn",
}
_LONGEST_ARN = "x" * 150
"""In place of an ARN that CloudFormation makes: those of log groups and tables are the longest."""

_USE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")
_KEY_ACTIONS = {
    "dynamodb": (
        *_USE_KEY,
        *("kms:DescribeKey", "kms:Encrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo"),
    ),
    "s3": _USE_KEY,
    "secretsmanager": ("kms:Decrypt",),
    "sns": _USE_KEY,
    "sqs": _USE_KEY,
}
"""The actions that a caller needs, by the service that it calls."""

KeyUse = tuple[str, kms.IKey | CustomerKey | None]
"""A service, and the key of a resource of it; None without a key of one's own."""


def allow(
    sid: str,
    actions: Sequence[str],
    *resources: str,
    conditions: Mapping[str, Any] | None = None,
    principal: iam.IPrincipal | None = None,
) -> iam.PolicyStatement:
    """Return a statement that allows actions; with a principal, one of a resource's policy."""
    # Statements with a name are never merged: a condition stays with its own actions.
    return iam.PolicyStatement(
        sid=sid,
        actions=list(actions),
        resources=list(resources),
        conditions=conditions,
        principals=[principal] if principal else None,
    )


def key_statements(scope: Construct, uses: Iterable[KeyUse]) -> list[iam.PolicyStatement]:
    """Return a statement for each key, which allows its use through the calling services only."""
    services: dict[str, set[str]] = {}
    for service, key in uses:
        if key is not None:
            arn = key.arn if isinstance(key, CustomerKey) else key.key_arn
            services.setdefault(arn, set()).add(service)
    statements = []
    for number, (arn, used) in enumerate(services.items()):
        actions = sorted({action for service in used for action in _KEY_ACTIONS[service]})
        through = [calling_service(scope, service) for service in sorted(used)]
        only = {"StringEquals": {"kms:ViaService": through}}
        statements.append(allow(f"UseKey{number}", actions, arn, conditions=only))
    return statements


def calling_service(scope: Construct, service: str) -> str:
    """Return the value of `kms:ViaService` for a service, also in the regions of China."""
    return f"{service}.{Stack.of(scope).region}.{Stack.of(scope).url_suffix}"


@dataclass(frozen=True, slots=True)
class ClaimAccess:
    """The objects of the claim-check bucket that may be read and written, as patterns of keys."""

    bucket: s3.IBucket
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        props: ConsumerProps,
        bucket: s3.IBucket | None,
        sources: Mapping[str, tuple[str, ...]],
    ) -> Self | None:
        """Return the access of a consumer; `sources` has the CloudEvents sources by event type."""
        if bucket is None:
            return None
        internal = {source for event in props.events for source in sources.get(event, ())}
        publishers = sorted(source.removeprefix(SOURCE_PREFIX) for source in internal)
        places = [PRODUCER_OBJECTS] if props.external else []
        places += map(consumer_objects, publishers)
        own = [consumer_objects(props.identity)] if props.publishes else []
        return cls(bucket, tuple(f"{p}*" for p in places), tuple(f"{p}*" for p in own))

    def read_statements(self) -> list[iam.PolicyStatement]:
        if not self.reads:
            return []
        objects = map(self.bucket.arn_for_objects, self.reads)
        # Without `ListBucket`, S3 answers for a missing object as for a forbidden one.
        actions = ["s3:GetObject", "s3:ListBucket"]
        return [allow("ReadClaims", actions, *objects, self.bucket.bucket_arn)]

    def write_statements(self) -> list[iam.PolicyStatement]:
        objects = map(self.bucket.arn_for_objects, self.writes)
        return [allow("StoreClaims", ["s3:PutObject"], *objects)] if self.writes else []

    def acknowledge(self, role: Construct) -> None:
        """Explain the patterns in the statements of a role or a policy."""
        arn = as_referenced(role, self.bucket.bucket_arn)
        reason = "The keys of the objects end with an event's id and the digest of its data."
        for pattern in sorted({*self.reads, *self.writes}):
            acknowledge_pattern(role, f"{arn}/{pattern}", reason)


_MACHINE_PARTS = 7
"""Parts of a state machine's ARN, between colons. A version or an alias is one more."""


def workflow_statements(
    scope: Construct, starts: Sequence[WorkflowProps]
) -> Iterator[iam.PolicyStatement]:
    """Yield the statements that allow to start workflows, and to read what they started.

    Step Functions authorizes by the ARN of the state machine, and compares a version or an alias
    with a condition key (Developer Guide, "Authorization for versions and aliases").
    """
    machines = [each.arn for each in starts if isinstance(each, StateMachineProps)]
    functions = [each.arn for each in starts if isinstance(each, DurableFunctionProps)]
    pairs = [_machine_and_qualifier(arn) for arn in machines]
    if plain := [machine for machine, qualifier in pairs if qualifier is None]:
        yield allow("StartExecutions", ["states:StartExecution"], *plain)
    qualified = [pair for pair in pairs if pair[1] is not None]
    for number, (machine, qualifier) in enumerate(qualified, 1):
        only = {"ForAnyValue:StringEquals": {"states:StateMachineQualifier": qualifier}}
        sid = f"StartQualifiedExecutions{number}"
        yield allow(sid, ["states:StartExecution"], machine, conditions=only)
    if machines:
        executions = [_executions(scope, arn) for arn in machines]
        yield allow("ReadOwnExecutions", ["states:DescribeExecution"], *executions)
    if functions:
        yield allow("StartDurableExecutions", ["lambda:InvokeFunction"], *functions)


def _machine_and_qualifier(arn: str) -> tuple[str, str | None]:
    """Return the ARN of a state machine, and the version or alias that follows in `arn`."""
    parts = arn.split(":")
    if len(parts) > _MACHINE_PARTS:
        return ":".join(parts[:_MACHINE_PARTS]), parts[_MACHINE_PARTS]
    token = Tokenization.reverse_string(arn).first_token if len(parts) == 1 else None
    qualified = (sfn.CfnStateMachineAlias, sfn.CfnStateMachineVersion)
    if not isinstance(token, Reference) or not isinstance(token.target, qualified):
        return arn, None
    split = Fn.split(":", arn)
    machine = Fn.join(":", [Fn.select(number, split) for number in range(_MACHINE_PARTS)])
    return machine, Fn.select(_MACHINE_PARTS, split)


def _executions(scope: Construct, arn: str) -> str:
    """Return the ARN of the executions that consumers start, of any version of a machine."""
    parts = Arn.split(arn, ArnFormat.COLON_RESOURCE_NAME)
    # The resource name may end in a version or an alias, so it is not that of the machine.
    name = Fn.select(6, Fn.split(":", arn))
    return Stack.of(scope).format_arn(
        service="states",
        partition=parts.partition,
        region=parts.region,
        account=parts.account,
        resource="execution",
        resource_name=f"{name}:{EXECUTION_PREFIX}*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )


def consumer_rights(
    scope: Construct,
    *,
    consumer: ConsumerProps,
    dedup_table: dynamodb.ITable,
    tables: Sequence[dynamodb.ITable],
    queues: ConsumerQueues,
    log_group: logs.ILogGroup,
    secret_arns: Sequence[str],
    claims: ClaimAccess | None,
    config: DeploymentConfig,
) -> iam.Role | iam.ManagedPolicy:
    """Return the role of a consumer's function; `claims` is its access to large data.

    If another tool makes the role, return a managed policy for it.
    """
    local = config.local
    isolation = queues.isolation
    # On AWS these actions include batches; the embedded AWS has actions for batches.
    deletes = isolation is not None or consumer.fifo
    consume = [*QUEUE_ACTIONS, *(["sqs:DeleteMessageBatch"] if local and deletes else [])]
    statements = [
        *_state_statements(consumer, dedup_table, tables, local=local),
        allow("ConsumeOwnQueues", consume, *(each.queue_arn for each in queues.read)),
        allow("Quarantine", ["sqs:SendMessage"], queues.dead_letters.queue_arn),
        allow("Log", LOG_ACTIONS, log_group.log_group_arn),
    ]
    if isolation is not None:
        send = ["sqs:SendMessage", *(["sqs:SendMessageBatch"] if local else [])]
        statements.append(allow("Isolate", send, isolation.queue_arn))
    if secret_arns:
        statements.append(allow("ReadSecrets", ["secretsmanager:GetSecretValue"], *secret_arns))
    # An identity may have a default configuration set.
    mailing = [
        Stack.of(scope).format_arn(service="ses", resource=each, resource_name="*")
        for each in ("identity", "configuration-set")
        if consumer.sends_email
    ]
    if consumer.sends_email:
        as_sender = {"StringEquals": {"ses:FromAddress": config.email_sender}}
        # The embedded AWS checks neither identities nor the sender.
        resources, conditions = (["*"], None) if local else (mailing, as_sender)
        statements.append(allow("SendEmail", ["ses:SendEmail"], *resources, conditions=conditions))
    if claims is not None:
        statements += [*claims.read_statements(), *claims.write_statements()]
    statements += workflow_statements(scope, consumer.starts)
    state = tables if consumer.dedup is Dedup.ITEM else [dedup_table, *tables]
    uses = [
        *(("sqs", each.encryption_master_key) for each in (*queues.read, queues.dead_letters)),
        *(("dynamodb", table.encryption_key) for table in state),
        ("secretsmanager", config.keys.secrets if secret_arns else None),
        ("s3", None if claims is None else claims.bucket.encryption_key),
    ]
    statements += key_statements(scope, uses)
    role = function_rights(scope, "Consumer", statements, config)
    for each in consumer.starts:
        if isinstance(each, StateMachineProps):
            acknowledge_pattern(
                role,
                _executions(role, as_referenced(role, each.arn)),
                "Step Functions has no permission for one execution: the prefix is that of the "
                "executions which consumers start, and the state machine is named.",
            )
    if claims is not None:
        claims.acknowledge(role)
    for resource in mailing:
        acknowledge_pattern(
            role,
            resource,
            "SES may also check the recipient's identity, as in its sandbox, and the default "
            "configuration set; the condition restricts the sender to one address.",
        )
    return role


def _state_statements(
    consumer: ConsumerProps,
    dedup_table: dynamodb.ITable,
    tables: Sequence[dynamodb.ITable],
    *,
    local: bool,
) -> list[iam.PolicyStatement]:
    if consumer.dedup is Dedup.ITEM:
        arns = [table.table_arn for table in tables]
        writes = [PUT, UPDATE]  # a deletion would remove the records on the item
        if consumer.group_size > 1:
            write = allow("WriteInTransactions", writes, *arns, conditions=ONLY_IN_TRANSACTIONS)
        else:
            names = [f"{ITEM_RECORD_PREFIX}{consumer.identity}#*"]
            with_record = {"ForAnyValue:StringLike": {"dynamodb:Attributes": names}}
            # The embedded AWS has no such key for writes.
            conditions = None if local else with_record
            write = allow("WriteWithRecord", writes, *arns, conditions=conditions)
        return [write, allow("Read", READS, *arns)]
    writes = [PUT, *([UPDATE] if consumer.has_effects else [])]
    records = record_statements(consumer.identity, dedup_table, writes, local=local)
    return [*records, *table_statements(tables)]


def table_statements(tables: Sequence[dynamodb.ITable]) -> list[iam.PolicyStatement]:
    """Return the statements on business tables whose writes commit with a record."""
    if not tables:
        return []
    arns, writes = [table.table_arn for table in tables], [PUT, UPDATE, "dynamodb:DeleteItem"]
    return [
        allow("WriteInTransactions", writes, *arns, conditions=ONLY_IN_TRANSACTIONS),
        allow("CheckInTransactions", ["dynamodb:ConditionCheckItem"], *arns),
        allow("Read", READS, *arns),
    ]


def record_statements(
    identity: str, table: dynamodb.ITable, writes: Sequence[str], *, local: bool
) -> list[iam.PolicyStatement]:
    """Return the statements on the dedup records whose keys begin with an identity."""
    own: dict[str, Any] = {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{identity}#*"]},
        # `ForAllValues` is true if the key is missing: `Null` requires the key. The embedded AWS
        # never has it, so that `Null` would deny every request there.
        **({} if local else {"Null": {"dynamodb:LeadingKeys": "false"}}),
    }
    conditions = {**ONLY_IN_TRANSACTIONS, **own}
    return [
        allow("WriteOwnRecordsInTransactions", writes, table.table_arn, conditions=conditions),
        allow("ReadOwnRecords", [LOOK_UP], table.table_arn, conditions=own),
    ]


def function_rights(
    scope: Construct,
    name: str,
    statements: Sequence[iam.PolicyStatement],
    config: DeploymentConfig,
) -> iam.Role | iam.ManagedPolicy:
    """Return the role of a function, or a managed policy if another tool makes the role."""
    if not config.external_functions:
        return function_role(scope, name, statements, config)
    # No description: a changed one would replace the policy, and leave the old one attached.
    policy = iam.ManagedPolicy(scope, name, document=_document(statements, config))
    _acknowledge_any(policy)
    return policy


def function_role(
    scope: Construct,
    policy: str,
    statements: Sequence[iam.PolicyStatement],
    config: DeploymentConfig,
) -> iam.Role:
    """Return the role of a function, which may also trace, and use the network of the VPC."""
    document = _document(statements, config)
    most = ROLE_CHARACTERS - _SETTINGS_CHARACTERS
    if (size := policy_characters(scope, document.to_json())) > most:
        fault = (
            f"its policy has up to {size} characters, and IAM takes {most} in a role beside the "
            "right to its settings; give it fewer tables, secrets, workflows or endpoints, or "
            "divide them between two functions"
        )
        raise SynthError(f"the function {scope.node.id!r} cannot be built", [fault])
    assumed_by = iam.ServicePrincipal("lambda.amazonaws.com")
    role = iam.Role(scope, "Role", assumed_by=assumed_by, inline_policies={policy: document})
    _acknowledge_any(role)
    return role


def _document(
    statements: Sequence[iam.PolicyStatement], config: DeploymentConfig
) -> iam.PolicyDocument:
    every = [*statements, allow("Trace", TRACE_ACTIONS, "*")]
    if config.network is not None:
        every.append(allow("UseNetwork", NETWORK_ACTIONS, "*"))
    return iam.PolicyDocument(statements=every)


def _acknowledge_any(part: Construct) -> None:
    acknowledge_pattern(
        part,
        "*",
        "X-Ray, and EC2 for the network interfaces of a function, have no resources that a policy "
        "could name for these actions.",
    )


def policy_characters(scope: Construct, document: Any) -> int:
    """Return the size of a policy in JSON, with the longest ARNs there can be."""
    longest = _at_its_longest(Stack.of(scope).resolve(document))
    return len(json.dumps(longest, separators=(",", ":")))


def _at_its_longest(value: Any) -> Any:
    """Return a resolved value with a text in place of each intrinsic function."""
    match value:
        case {"Ref": name}:
            return _LONGEST.get(name, _LONGEST_ARN)
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(map(_at_its_longest, parts))
        case (
            {"Fn::GetAtt": _}
            | {"Fn::GetStackOutput": _}
            | {"Fn::ImportValue": _}
            | {"Fn::Select": _}
        ):
            return _LONGEST_ARN
        case dict():
            return {key: _at_its_longest(each) for key, each in value.items()}
        case list():
            return [_at_its_longest(each) for each in value]
    return value
