"""The stack of consumers. What holds messages outlives it; the rest can be made again."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import CfnOutput, CrossStackReferences, ReferenceStrength, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk.app.registry import Registry, event_sources, published_types
from once.cdk.app.state_stack import StateStack
from once.cdk.checks.handlers_in_code import event_types_output
from once.cdk.deployment_options import DEDUP, DeploymentConfig
from once.cdk.idempotent_consumer import IdempotentConsumer
from once.cdk.monitoring.alarms import add_table_alarms, make_alarm_topic, notify
from once.cdk.monitoring.dashboard import tables_row
from once.cdk.operators import OperatorPolicies
from once.cdk.outbox_relay import OutboxRelay
from once.cdk.props import ConsumerProps, WebhookProps, output_key
from once.cdk.topics import Topics
from once.cdk.unrouted_events import UnroutedEvents
from once.cdk.webhook_ingress import WebhookIngress
from once.schema import StackOutput


class ServiceStack(Stack):
    """Topics, an `IdempotentConsumer` for each line of the registry, relay, alarms, dashboard.

    Args:
        scope: the app.
        name: the stack's name.
        registry: the consumers and the webhook ingress, each with its folder.
        config: the deployment.
        state: the stack that holds their tables and secrets.
        options: further arguments of `aws_cdk.Stack`.

    Raises:
        SynthError: a function's package cannot be built.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        registry: Registry,
        *,
        config: DeploymentConfig,
        state: StateStack,
        **options: Any,
    ) -> None:
        super().__init__(scope, name, description="Once: topics, queues and functions", **options)
        # CloudFormation neither changes nor removes an export that another stack imports.
        CrossStackReferences.of(self).consume(ReferenceStrength.WEAK)
        consumers, webhooks = list(registry.consumers), registry.webhooks
        # No topic delivers into an existing queue.
        subscribed = [each for each in consumers if each.name not in config.existing_queues]
        self.topics = Topics.make(self, config=config, consumers=subscribed)
        self.unrouted = UnroutedEvents(
            self, config=config, topics=self.topics, consumers=subscribed, webhooks=webhooks
        )
        self.relay = OutboxRelay(
            self,
            config=config,
            topics=self.topics,
            publishes=published_types(consumers, webhooks),
            dedup_table=state.dedup_table,
            failures=state.relay_failures,
        )
        self.topics.restrict_events_to(self.relay.role, local=config.local)
        self.consumers = [
            IdempotentConsumer(
                self,
                props,
                config=config,
                topics=self.topics if props in subscribed else None,
                unrouted=self.unrouted.queue,
                queue=self._existing_queue(props, config),
                relay=self.relay,
                sources=event_sources(props, consumers, webhooks),
                dedup_table=state.dedup_table,
                tables=state.tables_of(props),
                secrets=state.secrets_of(props),
                claims=state.claims,
            )
            for props in consumers
        ]
        for consumer in self.consumers:
            self._add_outputs(consumer)
        self.webhooks = None if webhooks is None else self._make_ingress(webhooks, config, state)
        CfnOutput(self, StackOutput.RELAY_FUNCTION, value=self.relay.function.function_name)
        CfnOutput(self, StackOutput.RELAY_DEAD_LETTERS, value=self.relay.dead_letters.queue_url)
        CfnOutput(self, StackOutput.UNROUTED_QUEUE, value=self.unrouted.queue.queue_url)
        CfnOutput(self, StackOutput.SWEEP_QUEUE, value=self.unrouted.sweep.queue_url)
        add_table_alarms(self, f"{config.service}-{DEDUP}", state.dedup_table)
        self._add_alarm_topic(config)
        self._add_operator_policies(config, state)
        if not config.local:  # the embedded AWS has no metrics to show
            # The names of dashboards are those of the whole account, not of a region.
            self._add_dashboard(f"{config.service}-{self.region}", state.tables)

    def _existing_queue(self, props: ConsumerProps, config: DeploymentConfig) -> sqs.IQueue | None:
        existing = config.existing_queues.get(props.name)
        if existing is None:
            return None
        return sqs.Queue.from_queue_attributes(
            self, f"Existing-{props.name}", queue_arn=existing.arn, key_arn=existing.key_arn
        )

    def _add_outputs(self, consumer: IdempotentConsumer) -> None:
        isolation = consumer.isolation
        outputs = {
            StackOutput.QUEUE: consumer.queue.queue_url,
            **({StackOutput.ISOLATION_QUEUE: isolation.queue_url} if isolation else {}),
            StackOutput.DEAD_LETTERS: consumer.dead_letters.queue_url,
            StackOutput.FUNCTION: consumer.function.function_name,
            StackOutput.IDENTITY: consumer.props.identity,
            StackOutput.EVENT_TYPES: event_types_output(consumer.props),
        }
        for prefix, value in outputs.items():
            CfnOutput(self, f"{prefix}{output_key(consumer.props.name)}", value=value)

    def _make_ingress(
        self, props: WebhookProps, config: DeploymentConfig, state: StateStack
    ) -> WebhookIngress:
        assert state.captures is not None  # noqa: S101 - both stacks are given the same ingress
        ingress = WebhookIngress(
            self,
            props,
            config=config,
            relay=self.relay,
            dedup_table=state.dedup_table,
            captures=state.captures,
            secrets=state.endpoint_secrets,
            claims=state.claims,
        )
        CfnOutput(self, StackOutput.WEBHOOK_URL, value=ingress.url)
        CfnOutput(self, StackOutput.WEBHOOK_FUNCTION, value=ingress.function.function_name)
        CfnOutput(self, StackOutput.WEBHOOK_ENDPOINTS, value=ingress.endpoints_output)
        return ingress

    def _add_alarm_topic(self, config: DeploymentConfig) -> None:
        topic = make_alarm_topic(self, config)
        notify(topic, self.node.find_all())
        CfnOutput(self, "AlarmTopic", value=topic.topic_arn)

    def _add_operator_policies(self, config: DeploymentConfig, state: StateStack) -> None:
        operators = OperatorPolicies(
            self,
            consumers=self.consumers,
            dedup_table=state.dedup_table,
            topics=self.topics,
            relay=self.relay,
            unrouted=self.unrouted,
            operator_log=state.operator_log,
            claims=state.claims,
            captures=state.captures,
            endpoint_secrets=[*state.endpoint_secrets.values()],
            config=config,
        )
        made = {"OperatorReads": operators.read_only, "OperatorChanges": operators.changes}
        for name, policies in made.items():
            arns = ",".join(policy.managed_policy_arn for policy in policies)
            CfnOutput(self, name, value=arns)

    def _add_dashboard(self, name: str, tables: Mapping[str, dynamodb.ITable]) -> None:
        rows = [
            *(consumer.dashboard_row() for consumer in self.consumers),
            *([] if self.webhooks is None else [self.webhooks.dashboard_row()]),
            self.relay.dashboard_row(),
            self.unrouted.dashboard_row(),
            tables_row(tables),
        ]
        cloudwatch.Dashboard(self, "Dashboard", dashboard_name=name, widgets=rows)
