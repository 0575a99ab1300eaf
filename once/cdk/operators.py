"""IAM policies for the operators of a deployment, who use the command `once`."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from once.cdk.command_function import CommandFunction
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.idempotent_consumer import IdempotentConsumer
from once.cdk.nag import acknowledge_pattern
from once.cdk.outbox_relay import OutboxRelay
from once.cdk.permissions import (
    ONLY_IN_TRANSACTIONS,
    POLICY_CHARACTERS,
    ClaimAccess,
    KeyUse,
    allow,
    key_statements,
    policy_characters,
)
from once.cdk.topics import Topics
from once.cdk.unrouted_events import UnroutedEvents
from once.names import COMMIT_ATTRIBUTE, LIVE_ALIAS, PRODUCER_OBJECTS
from once.settings import ITEM_RECORD_PREFIX
from once.webhooks.captured_webhook import BY_TIME

Statements = Callable[[Sequence[IdempotentConsumer]], Iterator[iam.PolicyStatement]]
"""The statements on the queues and logs of some consumers."""

_READ_DEAD_LETTERS = ("sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:ChangeMessageVisibility")
_MOVE_DEAD_LETTERS = ("sqs:DeleteMessage", "sqs:SendMessage")
"""Imported messages are sent to the queue that they were purged from."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """The business tables of a service in two Regions, and all attributes of their keys."""

    tables: Sequence[dynamodb.ITable]
    keys: Collection[str]


class OperatorPolicies(Construct):
    """Managed policies for operators.

    `read_only` allows `once status`, `trace`, `outbox list`, `dlq list`, `dlq show`, and
    `once webhooks list`, `show` and `listen`. A look at a dead letter receives and hides it for a
    minute, so it includes these actions. `changes` has the further actions of the other commands:
    to redrive, purge, import, settle, republish and replay, to pause and resume consumers, and to
    send test webhooks. Attach both to the role of an operator who may change data. Each is split
    into as many policies as IAM's limit of characters requires. Detach them before the stack is
    deleted: IAM refuses to delete an attached policy.

    `takeover` has the further actions of `once region`, for a service with global tables: those who
    have it can give any right to the functions' roles, as IAM cannot restrict an inline policy. It
    reads the keys and commit ids of business tables.

    No other action reads or writes a business table. Changes of dedup records are restricted to
    transactions. With a webhook ingress, each has one more, at its end: to read captured webhooks,
    which are customers' data; and to read the secrets of the endpoints for test webhooks, with
    which any webhook can be signed.

    Args:
        consumers: the consumers whose queues and logs are opened.
        dedup_table: the table of dedup records.
        topics: the topics of the deployment.
        commands: the functions with commands, whose logs are opened.
        relay: the outbox relay, if there is one.
        unrouted: the unrouted events, if any are kept.
        operator_log: the log group of the operators' changes.
        claims: the claim-check bucket, if there is one.
        captures: the table of captured webhooks, if there is a webhook ingress.
        endpoint_secrets: the ARNs of the secrets of its endpoints.
        further_stacks: names of the stacks with further consumers.
        takeover: the global tables of the service; None without any.
        shared: False in a further stack: without the permissions on what all consumers share, which
            the policies of the first one give.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        consumers: Sequence[IdempotentConsumer],
        dedup_table: dynamodb.ITable,
        topics: Topics,
        commands: Sequence[CommandFunction] = (),
        relay: OutboxRelay | None = None,
        unrouted: UnroutedEvents | None = None,
        operator_log: logs.ILogGroup,
        claims: s3.IBucket | None = None,
        captures: dynamodb.ITable | None = None,
        endpoint_secrets: Collection[str] = (),
        further_stacks: Sequence[str] = (),
        shared: bool = True,
        takeover: Takeover | None = None,
        config: DeploymentConfig | None = None,
    ) -> None:
        super().__init__(scope, "Operators")
        config = config or DeploymentConfig.from_context(self.node)
        self._dedup_table, self._operator_log = dedup_table, operator_log
        self._relay, self._unrouted, self._topics = relay, unrouted, topics
        self._commands = commands
        # They look at any data, and send it as producers do.
        objects = ("*",), (f"{PRODUCER_OBJECTS}*",)
        self._claims = None if claims is None else ClaimAccess(claims, *objects)
        self._other_dead_letters = [
            *([relay.dead_letters] if relay else []),
            *([unrouted.queue] if unrouted else []),
        ]
        stacks = (f"{config.service}-state", f"{config.service}-service", *further_stacks)
        self._stacks = [
            Stack.of(self).format_arn(
                service="cloudformation", resource="stack", resource_name=f"{name}/*"
            )
            for name in stacks
        ]
        self._patterns: dict[str, str] = {}
        self._keys: list[KeyUse] = [
            *(("sqs", queue.encryption_master_key) for queue in self._other_dead_letters),
            *(("dynamodb", table.encryption_key) for table in (dedup_table, captures) if table),
            ("sns", config.keys.topics),
            ("secretsmanager", config.keys.secrets if endpoint_secrets else None),
            ("s3", None if claims is None else claims.encryption_key),
        ]
        """The customer managed keys of the opened resources, except those of the consumers."""
        common = (self._common_reads(), self._common_changes()) if shared else ((), ())
        reads = self._make("ReadOnly", consumers, common[0], _reads)
        if captures is not None:
            table = captures.table_arn
            more = [
                allow("ReadCaptures", ["dynamodb:GetItem"], table),
                allow("ListCaptures", ["dynamodb:Query"], f"{table}/index/{BY_TIME}"),
            ]
            reads.append(self._policy("ReadWebhooks", self._with_keys(more)))
        changes = self._make("Changes", consumers, common[1], _changes)
        if endpoint_secrets:  # `once webhooks send` signs as a provider does
            sign = allow("Sign", ["secretsmanager:GetSecretValue"], *endpoint_secrets)
            changes.append(self._policy("SignWebhooks", self._with_keys([sign])))
        self.read_only, self.changes = tuple(reads), tuple(changes)
        self.takeover: tuple[iam.ManagedPolicy, ...] = ()
        if takeover is not None:
            statements = self._with_keys([*self._takeover(takeover, config, stacks[1:])])
            self.takeover = (self._policy("Takeover", statements),)

    def _takeover(
        self, tables: Takeover, config: DeploymentConfig, stacks: Sequence[str]
    ) -> Iterator[iam.PolicyStatement]:
        """Yield the further permissions for `once region`, in this Region."""
        yield allow("FindRoles", ["iam:ListRoles"], "*")
        names = [f"{name}-*" for name in stacks]
        roles = [
            Stack.of(self).format_arn(service="iam", region="", resource="role", resource_name=name)
            for name in names
        ]
        actions = [f"iam:{name}RolePolicy" for name in ("Get", "Put", "Delete")]
        yield allow("Fence", actions, *roles)
        functions = {"StringLike": {"lambda:FunctionArn": f"*:{config.service}-*"}}
        yield allow("Switch", ["lambda:UpdateEventSourceMapping"], "*", conditions=functions)
        function = Stack.of(self).format_arn(
            service="lambda",
            resource="function",
            resource_name=f"{config.service}-*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        yield allow("ReadRoleNames", ["lambda:GetFunctionConfiguration"], function)
        arns = [table.table_arn for table in tables.tables]
        yield allow("ReadReplicas", ["dynamodb:DescribeTable"], *arns)
        only_commits = {
            "ForAllValues:StringEquals": {"dynamodb:Attributes": [*tables.keys, COMMIT_ATTRIBUTE]},
            "StringEquals": {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"},
        }
        yield allow("ScanCommits", ["dynamodb:Scan"], *arns, conditions=only_commits)
        yield allow(
            "Reconcile",
            ["dynamodb:PutItem", "dynamodb:DeleteItem"],
            self._dedup_table.table_arn,
            conditions=ONLY_IN_TRANSACTIONS,
        )
        for pattern in (*roles, function):
            self._patterns[pattern] = "The names of roles end at random; functions have a prefix."

    def _make(
        self,
        name: str,
        consumers: Sequence[IdempotentConsumer],
        common: Iterable[iam.PolicyStatement],
        own: Statements,
    ) -> list[iam.ManagedPolicy]:
        """Return the policies with the common statements, and with the own ones of the consumers.

        A policy takes as many consumers as fit into it.
        """
        made: list[list[iam.PolicyStatement]] = []
        fixed = [*common]
        together: list[IdempotentConsumer] = []
        for consumer in consumers:
            more = self._with_keys([*fixed, *own([*together, consumer])], [*together, consumer])
            written = [statement.to_statement_json() for statement in more]
            document = {"Version": "2012-10-17", "Statement": written}
            if policy_characters(self, document) > POLICY_CHARACTERS:
                made.append(self._with_keys([*fixed, *own(together)], together))
                fixed, together = [], []
            together.append(consumer)
        made.append(self._with_keys([*fixed, *own(together)], together))
        return [
            self._policy(name if number == 1 else f"{name}{number}", statements)
            for number, statements in enumerate(made, 1)
        ]

    def _with_keys(
        self,
        statements: Sequence[iam.PolicyStatement],
        consumers: Sequence[IdempotentConsumer] = (),
    ) -> list[iam.PolicyStatement]:
        """Add permissions on the common keys, and on those of the queues of these consumers."""
        queues = [queue for each in consumers for queue in (each.queue, each.dead_letters)]
        own = [("sqs", queue.encryption_master_key) for queue in queues]
        return [*statements, *key_statements(self, [*self._keys, *own])]

    def _policy(self, name: str, statements: list[iam.PolicyStatement]) -> iam.ManagedPolicy:
        # No description: a changed one would replace the policy, and leave the old one attached.
        policy = iam.ManagedPolicy(self, name, statements=statements)
        reason = "No policy can name metrics, event source mappings, or a list of schedules."
        acknowledge_pattern(policy, "*", reason)
        for pattern, why in self._patterns.items():
            acknowledge_pattern(policy, pattern, why)
        for stack in self._stacks:
            acknowledge_pattern(policy, stack, "The ARN of a stack ends with a random id.")
        if self._claims is not None:
            self._claims.acknowledge(policy)
        return policy

    def _common_reads(self) -> Iterator[iam.PolicyStatement]:
        table = ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:Scan"]
        yield allow("FindDeployment", ["cloudformation:DescribeStacks"], *self._stacks)
        yield allow(
            "ReadDedupRecords", [*table, "dynamodb:DescribeTable"], self._dedup_table.table_arn
        )
        yield allow("ReadMetrics", ["cloudwatch:GetMetricData"], "*")
        yield allow("ReadMappings", ["lambda:ListEventSourceMappings"], "*")
        functions = filter(None, (*self._commands, self._relay, self._unrouted))
        own_logs = (self._operator_log, *(each.log_group for each in functions))
        arns = [each.log_group_arn for each in own_logs]
        yield allow("ReadOwnLogs", ["logs:FilterLogEvents"], *arns)
        if self._unrouted is not None:
            yield allow("Depth", ["sqs:GetQueueAttributes"], self._unrouted.sweep.queue_arn)
        if others := [queue.queue_arn for queue in self._other_dead_letters]:
            yield allow("ReadOtherLetters", _READ_DEAD_LETTERS, *others)
        if self._relay is not None and self._relay.publishes_later:
            yield allow("ListDue", ["scheduler:ListSchedules"], "*")
        if self._claims is not None:
            yield from self._claims.read_statements()

    def _common_changes(self) -> Iterator[iam.PolicyStatement]:
        log = ["logs:CreateLogStream", "logs:PutLogEvents"]
        yield allow("LogChanges", log, self._operator_log.log_group_arn)
        if others := [queue.queue_arn for queue in self._other_dead_letters]:
            yield allow("MoveOtherLetters", _MOVE_DEAD_LETTERS, *others)
        if self._claims is not None:
            yield from self._claims.write_statements()
        if ingress := [topic.topic_arn for topic in self._topics.of_producers]:
            yield allow("PublishUnrouted", ["sns:Publish"], *ingress)
        if self._relay is not None:
            yield allow("Republish", ["lambda:InvokeFunction"], self._relay.alias.function_arn)
        yield allow(
            "SettleEffects",
            ["dynamodb:UpdateItem"],
            self._dedup_table.table_arn,
            conditions=ONLY_IN_TRANSACTIONS,
        )


def _arn(consumer: IdempotentConsumer) -> str:
    """Return a function's ARN by its name: the function of another tool has no construct here."""
    return Stack.of(consumer.log_group).format_arn(
        service="lambda",
        resource="function",
        resource_name=consumer.full_name,
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )


def _reads(consumers: Sequence[IdempotentConsumer]) -> Iterator[iam.PolicyStatement]:
    if not consumers:
        return
    logs = [consumer.log_group.log_group_arn for consumer in consumers]
    dead_letters = [consumer.dead_letters.queue_arn for consumer in consumers]
    queues = [queue for each in consumers for queue in (each.queue, each.isolation) if queue]
    depth = [queue.queue_arn for queue in queues]
    yield allow("ReadDepth", ["sqs:GetQueueAttributes"], *depth)
    yield allow("ReadLetters", _READ_DEAD_LETTERS, *dead_letters)
    yield allow("ReadLogs", ["logs:FilterLogEvents"], *logs)
    # AWS's reference authorizes by the function, also for a request that names its alias.
    yield allow("ReadVersions", ["lambda:GetFunctionConfiguration"], *map(_arn, consumers))
    # With item dedup, the dedup records on the items, and nothing else of these items.
    tables = [(c.item_table, c.props.tables[0].keys) for c in consumers if c.item_table]
    if not tables:
        return
    keys = dict.fromkeys(key for _, keys in tables for key in keys)
    only_records = {
        "ForAllValues:StringLike": {"dynamodb:Attributes": [*keys, f"{ITEM_RECORD_PREFIX}*"]},
        # AWS does not say whether a request of `BatchGetItem` has this key.
        "StringEqualsIfExists": {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"},
    }
    arns = dict.fromkeys(table.table_arn for table, _ in tables)
    yield allow("ReadItemRecords", ["dynamodb:BatchGetItem"], *arns, conditions=only_records)


def _changes(consumers: Sequence[IdempotentConsumer]) -> Iterator[iam.PolicyStatement]:
    if not consumers:
        return
    dead_letters = [consumer.dead_letters.queue_arn for consumer in consumers]
    yield allow("Redrive", ["sqs:SendMessage"], *(c.queue.queue_arn for c in consumers))
    yield allow("MoveLetters", _MOVE_DEAD_LETTERS, *dead_letters)
    # A mapping has a random id. The condition compares the function that it names, or its alias;
    # whole ARNs would need one policy more for eighteen consumers.
    names = [f"*:{each.full_name}{end}" for each in consumers for end in ("", f":{LIVE_ALIAS}")]
    own = {"StringLike": {"lambda:FunctionArn": names}}
    yield allow("Pause", ["lambda:UpdateEventSourceMapping"], "*", conditions=own)
