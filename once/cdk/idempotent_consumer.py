"""The construct behind every line of the registry."""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk.checks.unmanaged_mappings import MARK
from once.cdk.config import Config
from once.cdk.lambda_function import make_function, make_log_group
from once.cdk.monitoring.alarms import add_consumer_alarms
from once.cdk.monitoring.dashboard import Row, consumer_row
from once.cdk.monitoring.metrics import Watched
from once.cdk.permissions import consumer_role
from once.cdk.props import Consumer
from once.cdk.queues import make_dead_letters, make_queue
from once.cdk.topics import Topics
from once.schema import EVENT_TYPE_ATTRIBUTE, Limits
from once.settings import Settings, TableSettings

ISOLATION_CONCURRENCY = 2
"""The least that Lambda takes: messages that end the function must not use up its concurrency."""


class IdempotentConsumer(Construct):
    """A queue, its dead letters, and the one function that may consume it.

    `line` is the consumer as it is deployed here; `queue`, `isolation`, `dead_letters` and
    `function` are its parts. `isolation` is None where every batch holds one message anyway.

    Args:
        scope: the stack.
        consumer: its line of the registry.
        config: the deployment.
        topics: where its events are published.
        unrouted: the queue for events that SNS cannot deliver to it.
        sources: the CloudEvents sources that each of its `events` may come from.
        dedup_table: the table of dedup records.
        tables: the business tables it may write, by the name its handlers use.
        secrets: the ARNs of the secrets it may read, by the name its line uses.

    Raises:
        SynthError: the function's package cannot be built.
    """

    def __init__(
        self,
        scope: Construct,
        consumer: Consumer,
        *,
        config: Config,
        topics: Topics,
        unrouted: sqs.IQueue,
        sources: Mapping[str, tuple[str, ...]],
        dedup_table: dynamodb.ITable,
        tables: Mapping[str, dynamodb.ITable],
        secrets: Mapping[str, str],
    ) -> None:
        super().__init__(scope, consumer.name)
        self.node.add_metadata(MARK, consumer.name)
        self.line = config.adapt(consumer)
        self._config = config
        self._sources = sources
        self._name = f"{config.service}-{consumer.name}"
        self.dead_letters = make_dead_letters(self, self._name)
        self.queue = self._make_queue("Queue", self._name)
        self.isolation = (
            self._make_queue("Isolation", f"{self._name}-isolation")
            if self.line.batch_size > 1
            else None
        )
        self.function = self._make_function(dedup_table, tables, secrets)
        self._map()
        if self.isolation is not None:
            self._map_isolation(self.isolation)
        self._subscribe(topics.ingress, self.line.external, unrouted)
        self._subscribe(topics.events, self.line.events, unrouted)
        add_consumer_alarms(self, self._watched, local=config.local)

    def dashboard_row(self) -> Row:
        """Return this consumer's graphs."""
        return consumer_row(self._watched)

    @property
    def _watched(self) -> Watched:
        return Watched(
            name=self.line.name,
            service=self._name,
            queue=self.queue,
            isolation=self.isolation,
            dead_letters=self.dead_letters,
            function=self.function,
            has_effects=self.line.has_effects,
        )

    def _make_queue(self, part: str, name: str) -> sqs.Queue:
        return make_queue(
            self,
            part,
            name,
            Limits.QUEUE_RETENTION_SECONDS,
            visibility_timeout=Duration.seconds(self.line.visibility),
            dead_letter_queue=self._redrive(),
        )

    def _redrive(self) -> sqs.DeadLetterQueue:
        # The net under the library: on the receive after the last run, the library itself
        # dead-letters a message, with a reason.
        return sqs.DeadLetterQueue(
            queue=self.dead_letters, max_receive_count=self.line.max_receive_count + 1
        )

    def _make_function(
        self,
        dedup_table: dynamodb.ITable,
        tables: Mapping[str, dynamodb.ITable],
        secrets: Mapping[str, str],
    ) -> lambda_.Function:
        log_group = make_log_group(self, self._name)
        role = consumer_role(
            self,
            consumer=self.line,
            dedup_table=dedup_table,
            tables=list(tables.values()),
            queues=self._queues,
            isolation=self.isolation,
            dead_letters=self.dead_letters,
            log_group=log_group,
            secret_arns=list(secrets.values()),
            sender=self._config.email_sender if self.line.sends_email else None,
            local=self._config.local,
        )
        return make_function(
            self,
            self.line.name,
            self.line.source,
            config=self._config,
            role=role,
            log_group=log_group,
            timeout_seconds=self.line.timeout_seconds,
            memory_mb=self.line.memory_mb,
            environment={**self._settings(dedup_table, tables).to_env(), **self._told(secrets)},
        )

    @property
    def _queues(self) -> list[sqs.IQueue]:
        return [self.queue] if self.isolation is None else [self.queue, self.isolation]

    def _settings(
        self, dedup_table: dynamodb.ITable, tables: Mapping[str, dynamodb.ITable]
    ) -> Settings:
        return Settings(
            consumer=self.line.name,
            event_types=self.line.event_types,
            sources=self._sources,
            queue_url=self.queue.queue_url,
            dead_letter_url=self.dead_letters.queue_url,
            dedup_table=dedup_table.table_name,
            tables={
                table.name: TableSettings(name=tables[table.name].table_name, key=table.keys)
                for table in self.line.tables
            },
            dedup_window_seconds=self._config.dedup_window_seconds,
            publishes=self.line.publishes,
            max_receive_count=self.line.max_receive_count,
            time_margin_ms=self._config.time_margin_ms,
            effect_timeout_seconds=self.line.effect_timeout_seconds,
            lease_margin_seconds=self._config.lease_margin_seconds,
            group_size=self.line.group_size,
            commit_threads=self.line.commit_threads,
            isolation_queue_url=None if self.isolation is None else self.isolation.queue_url,
            **self._config.backoff,
        )

    def _told(self, secrets: Mapping[str, str]) -> dict[str, str]:
        """What the function itself needs to know, where the library only passes it on."""
        sender = {"EMAIL_SENDER": self._config.email_sender} if self.line.sends_email else {}
        return {
            **{f"SECRET_{name.upper()}": arn for name, arn in secrets.items()},
            **{name.upper(): self._config.parameters[name] for name in self.line.parameters},
            **sender,
        }

    def _map(self) -> None:
        lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=self.function,
            event_source_arn=self.queue.queue_arn,
            batch_size=self.line.batch_size,
            max_batching_window=Duration.seconds(self.line.batch_window_seconds),
            max_concurrency=self.line.max_concurrency,
            report_batch_item_failures=True,
        )

    def _map_isolation(self, queue: sqs.IQueue) -> None:
        lambda_.EventSourceMapping(
            self,
            "IsolationMapping",
            target=self.function,
            event_source_arn=queue.queue_arn,
            batch_size=1,
            max_concurrency=ISOLATION_CONCURRENCY,
            report_batch_item_failures=True,
        )

    def _subscribe(self, topic: sns.ITopic, types: tuple[str, ...], unrouted: sqs.IQueue) -> None:
        if not types:
            return
        selected = sns.SubscriptionFilter.string_filter(allowlist=list(types))
        topic.add_subscription(
            subscriptions.SqsSubscription(
                self.queue,
                raw_message_delivery=True,
                filter_policy={EVENT_TYPE_ATTRIBUTE: selected},
                dead_letter_queue=unrouted,
            )
        )
