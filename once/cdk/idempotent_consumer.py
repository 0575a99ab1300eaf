"""The construct of one consumer: queues, function, role, alarms."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from aws_cdk import Annotations, Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk._lambda_function import make_function, make_log_group
from once.cdk._permissions import consumer_role
from once.cdk._queues import make_dead_letters, make_queue, retain_messages
from once.cdk.checks.consumer_props import consumer_props_faults
from once.cdk.checks.consumer_set import deployment_faults
from once.cdk.checks.handlers import UNREAD, unread_handlers
from once.cdk.checks.property_types import property_type_faults
from once.cdk.checks.unmanaged_mappings import CONSTRUCT_METADATA
from once.cdk.checks.wiring import Wiring, wiring_faults
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.monitoring.alarms import add_consumer_alarms
from once.cdk.monitoring.dashboard import Row, consumer_row
from once.cdk.monitoring.metrics import MonitoredConsumer
from once.cdk.outbox_relay import OutboxRelay
from once.cdk.props import ConsumerProps
from once.cdk.topics import Topics
from once.schema import Limits
from once.settings import Settings, TableSettings

ISOLATION_CONCURRENCY = 2
"""The least that Lambda accepts. Messages that end the function must not use up its concurrency."""


class IdempotentConsumer(Construct):
    """A consumer: its function, the queues that the function reads, dead letters and alarms.

    The attributes are its parts. `props` are its properties as they are deployed, `isolation` is
    None if every batch holds one message.

    An existing `queue` is not changed. If it is imported by its ARN, synthesis cannot check these
    attributes, which must hold: it is a standard queue; its visibility timeout is at least
    `props.visibility`; it keeps messages for four days at most, which the dedup window counts with;
    its redrive policy, if it has one, has a `maxReceiveCount` over `props.max_receive_count`, and a
    dead-letter queue of its own. If it is encrypted with a key of AWS KMS, import it with
    `Queue.from_queue_attributes(…, key_arn=…)`, and the role may decrypt with the key.

    Args:
        scope: the stack.
        props: the consumer.
        dedup_table: the table of dedup records, such as a `DedupTable`.
        tables: the business tables it may write, by the names that its handlers use.
        secrets: the ARNs of the secrets it may read, by the names in its properties.
        queue: the existing queue it reads; by default the construct makes one.
        topics: the topics its own queue is subscribed to.
        unrouted: the queue for events that SNS cannot deliver to its own queue.
        relay: publishes its events; required with `props.publishes`.
        sources: the CloudEvents sources that each of `props.events` may come from.
        config: the deployment; by default that of the CDK context.

    Raises:
        SynthError: the consumer cannot be built; lists all faults.
    """

    def __init__(
        self,
        scope: Construct,
        props: ConsumerProps,
        *,
        dedup_table: dynamodb.ITable,
        tables: Mapping[str, dynamodb.ITable] | None = None,
        secrets: Mapping[str, str] | None = None,
        queue: sqs.IQueue | None = None,
        topics: Topics | None = None,
        unrouted: sqs.IQueue | None = None,
        relay: OutboxRelay | None = None,
        sources: Mapping[str, tuple[str, ...]] | None = None,
        config: DeploymentConfig | None = None,
    ) -> None:
        _raise_if_any(props, list(property_type_faults(props)))
        super().__init__(scope, props.name)
        self.node.add_metadata(CONSTRUCT_METADATA, props.name)
        self._config = config or DeploymentConfig.from_context(self.node, props.parameters)
        self._sources = sources or {}
        published = None if relay is None else relay.publishes.get(props.identity, ())
        wiring = Wiring(tables or {}, secrets or {}, self._sources, queue, topics, published)
        self._check(props, wiring)
        self.props = self._config.adapt(props)
        self._name = f"{self._config.service}-{props.name}"
        made = (None if queue else self._name, self._isolation_name)
        self.dead_letters = make_dead_letters(self, self._name, *filter(None, made))
        self.queue = queue or self._make_queue("Queue", self._name)
        self.isolation = self._make_isolation()
        self.function = self._make_function(dedup_table, wiring)
        self._map()
        if self.isolation is not None:
            self._map_isolation(self.isolation)
        if topics is not None:
            topics.subscribe(self.queue, props, dead_letters=unrouted)
        retain_messages(self, self._config)
        add_consumer_alarms(self, self._monitored, local=self._config.local)

    def dashboard_row(self) -> Row:
        """Return this consumer's graphs."""
        return consumer_row(self._monitored)

    def _check(self, props: ConsumerProps, wiring: Wiring) -> None:
        faults = (*deployment_faults(self._config), *consumer_props_faults(props, self._config))
        _raise_if_any(props, [*faults, *wiring_faults(props, wiring)])
        if unread := unread_handlers(props):
            Annotations.of(self).add_warning_v2(UNREAD, unread)

    @property
    def _monitored(self) -> MonitoredConsumer:
        return MonitoredConsumer(
            name=self.props.name,
            service=self._name,
            queue=self.queue,
            isolation=self.isolation,
            dead_letters=self.dead_letters,
            function=self.function,
            has_effects=self.props.has_effects,
        )

    def _make_queue(self, part: str, name: str) -> sqs.Queue:
        return make_queue(
            self,
            part,
            name,
            Limits.QUEUE_RETENTION_SECONDS,
            visibility_timeout=Duration.seconds(self.props.visibility),
            dead_letter_queue=self._redrive(),
        )

    def _make_isolation(self) -> sqs.Queue | None:
        name = self._isolation_name
        return None if name is None else self._make_queue("Isolation", name)

    @property
    def _isolation_name(self) -> str | None:
        return None if self.props.batch_size == 1 else f"{self._name}-isolation"

    def _redrive(self) -> sqs.DeadLetterQueue:
        # Only a safety net: on the last receive the library itself dead-letters a message, with a
        # reason.
        return sqs.DeadLetterQueue(
            queue=self.dead_letters, max_receive_count=self.props.max_receive_count + 1
        )

    def _make_function(self, dedup_table: dynamodb.ITable, wiring: Wiring) -> lambda_.Function:
        props = self.props
        tables = {table.name: wiring.tables[table.name] for table in props.tables}
        secrets = {name: wiring.secrets[name] for name in props.secrets}
        settings = self._settings(dedup_table, tables)
        log_group = make_log_group(self, self._name)
        role = consumer_role(
            self,
            consumer=props,
            dedup_table=dedup_table,
            tables=list(tables.values()),
            queues=self._queues,
            isolation=self.isolation,
            dead_letters=self.dead_letters,
            log_group=log_group,
            secret_arns=list(secrets.values()),
            sender=self._config.email_sender if props.sends_email else None,
            local=self._config.local,
        )
        return make_function(
            self,
            props.name,
            cast(Path, props.folder),
            config=self._config,
            role=role,
            log_group=log_group,
            timeout_seconds=props.timeout_seconds,
            memory_mb=props.memory_mb,
            environment={**settings.to_env(), **self._handler_environment(secrets)},
        )

    @property
    def _queues(self) -> list[sqs.IQueue]:
        return [self.queue] if self.isolation is None else [self.queue, self.isolation]

    def _settings(
        self, dedup_table: dynamodb.ITable, tables: Mapping[str, dynamodb.ITable]
    ) -> Settings:
        return Settings(
            consumer=self.props.identity,
            event_types=self.props.event_types,
            sources=self._sources,
            queue_url=self.queue.queue_url,
            dead_letter_url=self.dead_letters.queue_url,
            dedup_table=dedup_table.table_name,
            tables={
                table.name: TableSettings(name=tables[table.name].table_name, key=table.keys)
                for table in self.props.tables
            },
            dedup_window_seconds=self._config.dedup_window_seconds,
            publishes=self.props.publishes,
            max_receive_count=self.props.max_receive_count,
            time_margin_ms=self._config.time_margin_ms,
            effect_timeout_seconds=self.props.effect_timeout_seconds,
            lease_margin_seconds=self._config.lease_margin_seconds,
            group_size=self.props.group_size,
            commit_threads=self.props.commit_threads,
            isolation_queue_url=None if self.isolation is None else self.isolation.queue_url,
            **self._config.backoff,
        )

    def _handler_environment(self, secrets: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that the handler reads, and the library does not."""
        sender = {"EMAIL_SENDER": self._config.email_sender} if self.props.sends_email else {}
        return {
            **{f"SECRET_{name.upper()}": arn for name, arn in secrets.items()},
            **{name.upper(): self._config.parameters[name] for name in self.props.parameters},
            **sender,
        }

    def _map(self) -> None:
        lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=self.function,
            event_source_arn=self.queue.queue_arn,
            batch_size=self.props.batch_size,
            max_batching_window=Duration.seconds(self.props.batch_window_seconds),
            max_concurrency=self.props.max_concurrency,
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


def _raise_if_any(props: ConsumerProps, faults: Sequence[str]) -> None:
    if faults:
        raise SynthError(f"consumer {props.name!r} cannot be built", faults)
