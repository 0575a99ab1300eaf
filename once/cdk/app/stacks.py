"""The stacks of a service: state, which survives any deployment of code, and consumers.

Consumers that have no room in the service stack are in further stacks, which are deployed after it.

After a first creation that failed, CloudFormation deletes what it has just made
(`RetainExceptOnCreate`). Tables stay (`Retain`): DynamoDB refuses to delete a protected one, and
the rollback would fail too. Their names are generated: the next attempt does not meet them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from aws_cdk import (
    Annotations,
    CfnOutput,
    CfnResource,
    CrossStackReferences,
    ReferenceStrength,
    RemovalPolicy,
    Stack,
)
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_ses as ses
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from once.cdk import retained_data
from once.cdk._lambda_function import FunctionConstruct
from once.cdk.app.registry import Registry, event_sources, published_types
from once.cdk.checks.consumer_set import route_warnings
from once.cdk.checks.handlers_in_code import event_types_output
from once.cdk.command_function import CommandFunction
from once.cdk.dashboard import DashboardParts, make_dashboard
from once.cdk.deployment_options import DEDUP, STRONG, CustomerKey, DeploymentConfig, imported_key
from once.cdk.idempotent_consumer import IdempotentConsumer
from once.cdk.monitoring import add_shared_alarms, make_alarm_topic, notify
from once.cdk.nag import acknowledge_finding
from once.cdk.operators import OperatorPolicies, Takeover
from once.cdk.outbox_relay import OutboxRelay
from once.cdk.props import CommandProps, ConsumerProps, TableProps, later_types, output_key
from once.cdk.topics import Topics
from once.cdk.unrouted_events import UnroutedEvents
from once.cdk.webhook_function import WebhookFunction
from once.names import StackOutput

CAPTURES = "captures"
"""Construct id of the table of captures."""


def name_resources(stack: Stack) -> None:
    """Give each resource of a finished stack its path as logical id, without the CDK's hash.

    `box/DeadLetters` is `boxDeadLetters`. Names have small letters, and each part after a name
    begins with a capital one, so that no two paths give one id unless two names differ in their
    underscores only, which is a fault of the registry. Versions of functions keep their hash.
    """
    # An override of `allocate_logical_id` would be asked at every reference, over the process of
    # the CDK, which takes seconds.
    for each in stack.node.find_all():
        if isinstance(each, CfnResource) and not isinstance(each, lambda_.CfnVersion):
            path = each.node.path.removeprefix(f"{stack.node.path}/")
            each.override_logical_id(_logical_id(path))


def _output(stack: Stack, key: str, value: str, about: str) -> None:
    CfnOutput(stack, key, value=value, description=about)


def _logical_id(path: str) -> str:
    parts = [part for part in path.split("/") if part not in _UNNAMED]
    first, *others = re.split(r"[^a-z0-9]+", "/".join(parts).replace("_", ""), flags=re.IGNORECASE)
    return "".join([first, *(each[:1].upper() + each[1:] for each in others)])


_UNNAMED = {"Resource", "Default"}
"""Ids of the CDK's constructs that say nothing."""


class StateStack(Stack):
    """The dedup table, the operator log, and the registry's tables, secrets and sender of e-mail.

    `endpoint_secrets` are the ARNs of the secrets of the ingress's endpoints. `captures` is the
    table of captured webhooks, None without an ingress. `relay_failures` is the bucket for failed
    batches of the relay, None if there is nothing to publish; `schedules` the group of the due
    events that wait, None if nothing is published later. `operator_log` is the log group of the
    changes that operators make. `claims` is the claim-check bucket, None if neither a consumer nor
    the ingress needs one.

    Args:
        registry: the consumers and the webhook ingress.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        registry: Registry,
        *,
        config: DeploymentConfig,
        **options: Any,
    ) -> None:
        about = "Once: dedup records, business tables, secrets"
        super().__init__(scope, name, description=about, **options)
        self._config, keys = config, config.keys
        consumers, webhooks = registry.consumers, registry.webhooks
        self.dedup_table = self._existing(DEDUP) or self._records()
        _output(
            self, StackOutput.DEDUP_TABLE, self.dedup_table.table_name, "table of dedup records"
        )
        writers: list[ConsumerProps | CommandProps] = [*consumers, *registry.commands]
        tables = dict.fromkeys(table for each in writers for table in each.tables)
        secrets = dict.fromkeys(secret for each in consumers for secret in each.secrets)
        self._tables = {table.name: self._table(table) for table in tables}
        for table_name, table in self._tables.items():
            key = f"{StackOutput.TABLE}{output_key(table_name)}"
            _output(self, key, table.table_name, f"table {table_name}")
        self._secrets = {secret: self._make_secret(secret) for secret in secrets}
        for secret, arn in self._secrets.items():
            _output(self, f"Secret{output_key(secret)}", arn, f"secret {secret}: set its value")
        self.captures = None
        if webhooks is not None:
            self.captures = retained_data.CaptureTable(self, CAPTURES, key=keys.tables)
            _output(self, StackOutput.CAPTURES, self.captures.table_name, "captured webhooks")
        self.endpoint_secrets = {
            endpoint.name: self._make_secret(f"{endpoint.name}-endpoint")
            for endpoint in (() if webhooks is None else webhooks.endpoints)
        }
        for endpoint, arn in self.endpoint_secrets.items():
            key = output_key(endpoint.replace("-", "_"))  # `stripe-eu` → `StripeEu`
            about = f"secret of the endpoint {endpoint}: set its value"
            _output(self, f"{StackOutput.ENDPOINT_SECRET}{key}", arn, about)
        self.operator_log = retained_data.OperatorLog(self, "operator-log", key=keys.logs)
        self.relay_failures = None
        if published_types(registry.lines):
            failures = retained_data.RelayFailures(self, "relay-failures", key=keys.buckets)
            about = "bucket for batches that the relay failed to publish"
            _output(self, "RelayFailures", failures.bucket_name, about)
            self.relay_failures = failures
        self.schedules = None
        if later_types(registry.lines):
            self.schedules = retained_data.ScheduleGroup(self, "schedules")
        self.claims = None
        storing = webhooks if webhooks is not None and webhooks.needs_claims else None
        if storing is not None or any(each.claim_check_mb for each in consumers):
            self.claims = retained_data.ClaimBucket(self, "claims", config, storing)
            about = "bucket for the large data of events"
            _output(self, StackOutput.CLAIM_BUCKET, self.claims.bucket_name, about)
        if config.create_email_identity and any(each.sends_email for each in consumers):
            # A person verifies the address once; a new identity would have to be verified again.
            email = ses.Identity.email(config.email_sender)
            sender = ses.EmailIdentity(self, "sender", identity=email)
            sender.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        name_resources(self)

    @property
    def tables(self) -> Mapping[str, dynamodb.ITable]:
        """Every table by its name, the dedup table first."""
        return {DEDUP: self.dedup_table, **self._tables}

    def tables_of(self, line: ConsumerProps | CommandProps) -> Mapping[str, dynamodb.ITable]:
        return {table.name: self._tables[table.name] for table in line.tables}

    def secrets_of(self, consumer: ConsumerProps) -> Mapping[str, str]:
        return {name: self._secrets[name] for name in consumer.secrets}

    def _records(self) -> dynamodb.ITable:
        config = self._config
        warm, regions = config.warm(config.dedup_warm_throughput), config.global_tables
        # Strongly consistent tables have no time to live, and every consumer has item dedup there.
        if regions is None or regions.consistency == STRONG:
            return retained_data.DedupTable(self, DEDUP, warm, key=config.keys.tables)
        return retained_data.GlobalDedupTable(
            self,
            DEDUP,
            warm,
            regions,
            key=config.keys.tables,
            deletion_protection=config.keep_data,
        )

    def _table(self, props: TableProps) -> dynamodb.ITable:
        if (existing := self._existing(props.name)) is not None:
            return existing
        config = self._config
        made = replace(props, warm_throughput=config.warm(props.warm_throughput))
        name, key, regions = f"{props.name}-table", config.keys.tables, config.global_tables
        if regions is None:
            return retained_data.RetainedTable(self, name, made, key=key)
        return retained_data.RetainedGlobalTable(
            self, name, made, regions, key=key, deletion_protection=config.keep_data
        )

    def _existing(self, name: str) -> dynamodb.ITable | None:
        existing = self._config.existing_tables.get(name)
        if existing is None:
            return None
        key = existing.key_arn and CustomerKey(existing.key_arn)
        return dynamodb.Table.from_table_attributes(
            self,
            f"existing-{name}",
            table_arn=existing.arn,
            table_stream_arn=existing.stream_arn,
            encryption_key=imported_key(self, key or None),
        )

    def _make_secret(self, name: str) -> str:
        secret = secretsmanager.Secret(
            self,
            f"{name}-secret",
            encryption_key=imported_key(self, self._config.keys.secrets),
            description="Once: set its value with `aws secretsmanager put-secret-value`",
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        made = cast(secretsmanager.CfnSecret, secret.node.default_child)
        # Without a value, a webhook that comes before it is answered with 503 and sent again. CDK
        # asks for a random one, which no signature matches: a webhook would count as forged.
        made.generate_secret_string = None
        acknowledge_finding(
            secret,
            "AwsSolutions-SMG4",
            "Its value is a provider's key, which only the owner of that account can rotate.",
        )
        # `Id` is the ARN on the embedded AWS too, where a `Ref` is the name.
        return made.attr_id


class _ConsumerStack(Stack):
    """A stack with consumers, and the parts of the service that they share."""

    consumers: list[IdempotentConsumer]

    def __init__(
        self,
        scope: Construct,
        name: str,
        registry: Registry,
        config: DeploymentConfig,
        state: StateStack,
        **options: Any,
    ) -> None:
        super().__init__(scope, name, **options)
        # CloudFormation neither changes nor removes an export that another stack imports.
        CrossStackReferences.of(self).consume(ReferenceStrength.WEAK)
        self._registry, self._config, self._state = registry, config, state

    def _subscribed(self, lines: Sequence[ConsumerProps]) -> list[ConsumerProps]:
        """Return those with a queue of their own: no topic delivers into an existing one."""
        return [each for each in lines if each.name not in self._config.existing_queues]

    def _add_consumers(
        self, lines: Sequence[ConsumerProps], topics: Topics, service: "ServiceStack"
    ) -> None:
        """Add consumers, with the outputs that the operator's tools read."""
        registry, config, state = self._registry, self._config, self._state
        self.consumers = [
            IdempotentConsumer(
                self,
                props,
                config=config,
                topics=None if props.name in config.existing_queues else topics,
                queue=self._existing_queue(props.name),
                relay=service.relay,
                sources=event_sources(props, registry.lines),
                dedup_table=state.dedup_table,
                tables=state.tables_of(props),
                secrets=state.secrets_of(props),
                claims=state.claims,
            )
            for props in lines
        ]
        for consumer in self.consumers:
            isolation = consumer.isolation
            made = {
                StackOutput.QUEUE: ("queue", consumer.queue.queue_url),
                StackOutput.DEAD_LETTERS: ("dead-letter queue", consumer.dead_letters.queue_url),
                StackOutput.FUNCTION: ("function", consumer.function.function_name),
                StackOutput.IDENTITY: ("name in dedup keys", consumer.props.identity),
                StackOutput.EVENT_TYPES: (
                    "event types, and the rules of their keys",
                    event_types_output(consumer.props),
                ),
            }
            if isolation is not None:
                made[StackOutput.ISOLATION_QUEUE] = ("isolation queue", isolation.queue_url)
            name = consumer.props.name
            if name in config.existing_queues:
                rules = json.dumps(consumer.props.queue_rules)
                made[StackOutput.QUEUE_RULES] = ("attributes that its queue must have", rules)
            word = output_key(name)
            for prefix, (about, value) in made.items():
                _output(self, f"{prefix}{word}", value, f"{name}: {about}")
            self._output_contract(consumer)

    def _output_contract(self, part: FunctionConstruct) -> None:
        name = part.node.id
        for suffix, value in part.contract.items():
            about = f"{name}: for the tool that makes its function"
            _output(self, f"{output_key(name)}{suffix}", value, about)

    def _existing_queue(self, name: str) -> sqs.IQueue | None:
        existing = self._config.existing_queues.get(name)
        if existing is None:
            return None
        return sqs.Queue.from_queue_attributes(
            self, f"Existing-{name}", queue_arn=existing.arn, key_arn=existing.key_arn
        )

    def _add_operators(self, service: "ServiceStack", **options: Any) -> None:
        """Add the operators' policies for the consumers, and their ARNs as outputs."""
        operators = OperatorPolicies(
            self,
            consumers=self.consumers,
            dedup_table=self._state.dedup_table,
            topics=service.topics,
            relay=service.relay,
            unrouted=service.unrouted,
            operator_log=self._state.operator_log,
            claims=self._state.claims,
            config=self._config,
            **options,
        )
        made = {
            "OperatorReads": ("policies for commands that only read", operators.read_only),
            "OperatorChanges": ("policies for commands that change something", operators.changes),
            "OperatorTakeover": ("policy for the commands of two Regions", operators.takeover),
        }
        for output, (about, policies) in made.items():
            if not policies:
                continue
            arns = ",".join(policy.managed_policy_arn for policy in policies)
            _output(self, output, arns, about)

    def _add_dashboard(self, name: str, parts: DashboardParts | None = None) -> None:
        if not self._config.local:  # the embedded AWS has no metrics to show
            # The names of dashboards are those of the whole account, not of a region.
            make_dashboard(self, f"{name}-{self.region}", self.consumers, parts)


class ServiceStack(_ConsumerStack):
    """An `IdempotentConsumer` for each of its lines, with the topics, relay and alarms they need.

    `relay` is None if no line publishes, `unrouted` if no filter policy drops an event, `webhooks`
    without an ingress. `commands` are the functions with commands.

    Args:
        registry: the consumers and the webhook ingress, each with its folder.
        state: the stack that holds their tables and secrets.
        further: the lines that are in further stacks, by the names of these stacks.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        registry: Registry,
        *,
        config: DeploymentConfig,
        state: StateStack,
        further: Mapping[str, Sequence[ConsumerProps]] = {},
        **options: Any,
    ) -> None:
        about = "Once: topics, queues and functions"
        super().__init__(scope, name, registry, config, state, description=about, **options)
        consumers, webhooks = list(registry.consumers), registry.webhooks
        subscribed = self._subscribed(consumers)
        publishes = published_types(registry.lines)
        publishers = [each for each in registry.lines if not isinstance(each, ConsumerProps)]
        published = {event for types in publishes.values() for event in types}
        self.topics = Topics.make(self, config=config, consumers=subscribed, published=published)
        self.unrouted = None
        if self.topics.filtered:
            self.unrouted = UnroutedEvents(
                self,
                config=config,
                topics=self.topics,
                consumers=subscribed,
                publishers=publishers,
                further={
                    _routes_of(stack): self._subscribed(lines) for stack, lines in further.items()
                },
            )
        for warning in () if self.unrouted else route_warnings(registry.lines):
            Annotations.of(self).add_warning_v2(warning.id, warning.text)
        self.relay = None
        if published:
            self.relay = OutboxRelay(
                self,
                config=config,
                topics=self.topics,
                publishes=publishes,
                publishes_later=later_types(registry.lines),
                dedup_table=state.dedup_table,
                failures=state.relay_failures,
                schedules=state.schedules,
            )
            self.topics.restrict_events_to(*self.relay.publishers, local=config.local)
        elsewhere = [each for lines in further.values() for each in lines]
        here = [each for each in consumers if each not in elsewhere]
        self._add_consumers(here, self.topics, self)
        self.commands = [self._command_function(each) for each in registry.commands]
        self.webhooks = None
        if webhooks is not None:
            assert state.captures is not None  # noqa: S101 - both stacks are given the same ingress
            self.webhooks = WebhookFunction(
                self,
                webhooks,
                config=config,
                relay=self.relay,
                dedup_table=state.dedup_table,
                captures=state.captures,
                secrets=state.endpoint_secrets,
                claims=state.claims,
            )
            function, endpoints = self.webhooks.function, self.webhooks.endpoints_output
            url = self.webhooks.url
            _output(self, StackOutput.WEBHOOK_URL, url, "address, before the name of an endpoint")
            _output(self, StackOutput.WEBHOOK_FUNCTION, function.function_name, "webhook ingress")
            _output(self, StackOutput.WEBHOOK_ENDPOINTS, endpoints, "endpoints of webhooks")
        if self.relay is not None:
            function, letters = self.relay.function, self.relay.dead_letters
            _output(self, StackOutput.RELAY_FUNCTION, function.function_name, "outbox relay")
            about = "dead-letter queue of the outbox relay"
            _output(self, StackOutput.RELAY_DEAD_LETTERS, letters.queue_url, about)
        if self.unrouted is not None:
            kept, sweep = self.unrouted.queue, self.unrouted.sweep
            about = "events that no consumer takes"
            _output(self, StackOutput.UNROUTED_QUEUE, kept.queue_url, about)
            about = "copies of events, of which some no consumer takes"
            _output(self, StackOutput.SWEEP_QUEUE, sweep.queue_url, about)
        if further:
            _output(self, StackOutput.FURTHER_STACKS, ",".join(further), "further stacks")
        add_shared_alarms(self, state.dedup_table, config)
        self.alarm_topic = make_alarm_topic(self, config)
        notify(self.alarm_topic, self.node.find_all())
        about = "topic of the alarms: subscribe to it"
        _output(self, "AlarmTopic", self.alarm_topic.topic_arn, about)
        takeover = None
        if config.global_tables is not None:
            lines: list[ConsumerProps | CommandProps] = [*consumers, *registry.commands]
            keys = dict.fromkeys(key for line in lines for t in line.tables for key in t.keys)
            takeover = Takeover([t for name, t in state.tables.items() if name != DEDUP], [*keys])
        self._add_operators(
            self,
            takeover=takeover,
            commands=self.commands,
            captures=state.captures,
            endpoint_secrets=[*state.endpoint_secrets.values()],
            further_stacks=list(further),
        )
        parts = DashboardParts(
            self.commands, self.webhooks, self.relay, self.unrouted, state.tables
        )
        self._add_dashboard(config.service, parts)
        name_resources(self)

    def _command_function(self, props: CommandProps) -> CommandFunction:
        config, state = self._config, self._state
        made = CommandFunction(
            self,
            props,
            config=config,
            relay=self.relay,
            dedup_table=state.dedup_table,
            tables=state.tables_of(props),
        )
        word, name = output_key(props.name), made.function.function_name
        _output(self, f"{StackOutput.COMMANDS_FUNCTION}{word}", name, f"{props.name}: function")
        names = ",".join(props.settings["commands"])
        _output(self, f"{StackOutput.COMMANDS}{word}", names, f"{props.name}: its commands")
        if made.url is not None:
            about = f"{props.name}: address, before the path of a route"
            _output(self, f"{StackOutput.COMMANDS_URL}{word}", made.url, about)
        self._output_contract(made)
        return made


class FurtherStack(_ConsumerStack):
    """An `IdempotentConsumer` for each line that the service stack has no room for.

    It is deployed after the service stack, whose topics and relay it uses.

    Args:
        lines: its consumers, each with its folder.
        registry: all consumers of the service.
        state: the stack that holds their tables and secrets.
        service: the service stack.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        lines: Sequence[ConsumerProps],
        registry: Registry,
        *,
        config: DeploymentConfig,
        state: StateStack,
        service: ServiceStack,
        **options: Any,
    ) -> None:
        about = "Once: further queues and functions"
        super().__init__(scope, name, registry, config, state, description=about, **options)
        topics = replace(service.topics)  # the sweep waits for no subscription of this stack
        self._add_consumers(lines, topics, service)
        routes = topics.routes_to(self._subscribed(lines))
        # Also without a sweep: CloudFormation takes no stack without a resource.
        ssm.StringParameter(
            self,
            "Routes",
            parameter_name=_routes_of(name),
            string_value=json.dumps({topic.topic_arn: types for topic, types in routes.items()}),
            description="Once: the event types that this stack's consumers subscribe to",
            tier=ssm.ParameterTier.INTELLIGENT_TIERING,  # advanced only over 4 KB
        ).node.add_dependency(topics.subscribed)
        notify(service.alarm_topic, self.node.find_all())
        if self.consumers:
            self._add_operators(service, shared=False)
            self._add_dashboard(name)
        name_resources(self)


def _routes_of(stack: str) -> str:
    """Return the name of the parameter with the routes of a further stack."""
    return f"/{stack}/routes"
