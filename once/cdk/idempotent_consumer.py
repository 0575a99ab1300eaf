"""The construct of one consumer: queues, function, role, alarms."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from aws_cdk import Annotations, Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from once.cdk import _queues
from once.cdk._lambda_function import FunctionConstruct
from once.cdk._queue_sources import TargetQueue, connect
from once.cdk.checks.aws_clients_in_code import UNREAD_CLIENTS, unread_clients
from once.cdk.checks.constructs import CONSTRUCT_METADATA, later_type_faults, wiring_faults
from once.cdk.checks.consumer_props import consumer_props_faults
from once.cdk.checks.deployment_config import RESERVED_SENDER, deployment_faults, reserved_sender
from once.cdk.checks.handlers_in_code import UNREAD, unread_handlers
from once.cdk.checks.property_types import property_type_faults
from once.cdk.deployment_options import ALL, DeploymentConfig
from once.cdk.monitoring import monitor_consumer
from once.cdk.outbox_relay import OutboxRelay
from once.cdk.permissions import ClaimAccess, consumer_rights
from once.cdk.props import ConsumerProps, DurableFunctionProps, MessageGroups
from once.cdk.synth_error import SynthError
from once.cdk.topics import Topics
from once.names import ExternalOutput, Limits, retention_variable, workflow_variable
from once.settings import Dedup, Settings, TableSettings


class IdempotentConsumer(FunctionConstruct):
    """A consumer: its function, the queues that the function reads, dead letters and alarms.

    With `external_functions` of the deployment, another tool makes its function, role and mappings:
    it has no `alias`, and `contract` has what that tool needs, by the ends of outputs' keys.

    The attributes are its parts. `props` are its properties as they are deployed, `isolation` is
    None if every batch holds one message, `item_table` is None unless its items hold the dedup
    records. The queues invoke `alias`, which points to a published version of `function`.

    An existing `queue` is not changed, and nothing is made for `props.source`. Synthesis checks the
    attributes of one that the app makes. Of one that is imported by its ARN they must be as
    docs/your-service.md says. If it is encrypted with a key of AWS KMS, import it with
    `Queue.from_queue_attributes(…, key_arn=…)`, and the role may use the key.

    Args:
        props: the consumer.
        dedup_table: the table of dedup records, such as a `DedupTable`.
        tables: the business tables it may write, by the names that its handlers use.
        secrets: the ARNs of the secrets it may read, by the names in its properties.
        queue: the existing queue it reads; by default the construct makes one.
        topics: the topics its own queue is subscribed to. Its dead letters get the events that SNS
            cannot deliver.
        relay: publishes its events; required with `props.publishes`.
        sources: the CloudEvents sources that each of `props.events` may come from.
        bucket: the bucket of `Source.s3()`, if that does not name it.
        claims: the claim-check bucket; required with `props.claim_check_mb`.

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
        relay: OutboxRelay | None = None,
        sources: Mapping[str, tuple[str, ...]] | None = None,
        bucket: s3.IBucket | None = None,
        claims: s3.IBucket | None = None,
        config: DeploymentConfig | None = None,
    ) -> None:
        if faults := list(property_type_faults(props)):
            raise _unbuildable(props, faults)
        config = config or DeploymentConfig.from_context(scope.node, props.parameters)
        super().__init__(scope, props.name, config)
        self.node.add_metadata(CONSTRUCT_METADATA, props.name)
        claims = claims if props.claim_check_mb else None
        tables, secrets, sources = tables or {}, secrets or {}, sources or {}
        faults = [*deployment_faults(config), *consumer_props_faults(props, config)]
        faults += wiring_faults(
            props,
            tables=tables,
            secrets=secrets,
            sources=sources,
            queue=queue,
            topics=topics,
            published=None if relay is None else relay.publishes.get(props.identity, ()),
            bucket=bucket,
            claims=claims,
        )
        later = frozenset[str]() if relay is None else relay.publishes_later
        faults += later_type_faults(props, later) if relay else []
        if faults:
            raise _unbuildable(props, faults)
        for warning, text in (
            (UNREAD, unread_handlers(props)),
            (UNREAD_CLIENTS, unread_clients(props)),
            (RESERVED_SENDER, reserved_sender(props, config)),
        ):
            if text:
                Annotations.of(self).add_warning_v2(warning, text)
        self.props = config.adapt(props)
        groups = MessageGroups() if relay is None else relay.groups.among(props.publishes)
        on_item = props.dedup is Dedup.ITEM
        self.item_table = tables[props.tables[0].name] if on_item else None
        # On a FIFO queue, a message that left would be overtaken.
        isolates = self.props.batch_size > 1 and not props.fifo
        isolation = f"{self.full_name}-isolation" if isolates else None
        own = None if queue else _queues.queue_name(self.full_name, fifo=props.fifo)
        self.dead_letters = _queues.make_dead_letters(
            self,
            f"{self.full_name}-dead-letters",
            *filter(None, (own, isolation)),
            config=config,
            fifo=props.fifo,
        )
        self.queue = queue or self._make_queue("Queue", self.full_name, props.max_receive_count)
        # One receive more, in which a message that ends the function is dead-lettered unread, with
        # its reason: it has been the only one of its batch in all others (ADR 0001).
        self.isolation = (
            self._make_queue("Isolation", isolation, props.max_receive_count + 1)
            if isolation
            else None
        )
        queues = _queues.ConsumerQueues(self.queue, self.isolation, self.dead_letters)
        tables = {table.name: tables[table.name] for table in props.tables}
        secrets = {name: secrets[name] for name in props.secrets}
        rights = consumer_rights(
            self,
            consumer=self.props,
            dedup_table=dedup_table,
            tables=list(tables.values()),
            queues=queues,
            log_group=self.log_group,
            secret_arns=list(secrets.values()),
            claims=ClaimAccess.of(props, claims, sources),
            config=config,
        )
        settings = Settings(
            sources=sources,
            queue_url=self.queue.queue_url,
            dead_letter_url=self.dead_letters.queue_url,
            dedup_table=dedup_table.table_name,
            tables={
                table.name: TableSettings(name=tables[table.name].table_name, key=table.keys)
                for table in props.tables
            },
            dedup_window_seconds=config.dedup_window_seconds,
            time_margin_ms=config.time_margin_ms,
            lease_margin_seconds=config.lease_margin_seconds,
            isolation_queue_url=None if self.isolation is None else self.isolation.queue_url,
            claim_bucket=None if claims is None else claims.bucket_name,
            **{**self.props.settings, **groups.settings, **config.backoff},
        )
        variables = self._handler_variables(secrets)
        mapping, serving = None, list[IDependable]()
        if isinstance(rights, iam.ManagedPolicy):
            self._leave_to_other_tool(
                self.props,
                rights,
                settings,
                variables,
                VisibilityTimeout=self.props.visibility,
                Mapping=_queues.mapping_demands(self.props),
                IsolationMapping=_queues.ISOLATION_DEMANDS,
            )
            isolated = self.isolation
            self.contract |= {
                ExternalOutput.QUEUE: self.queue.queue_arn,
                **({ExternalOutput.ISOLATION_QUEUE: isolated.queue_arn} if isolated else {}),
            }
        else:
            self._make_function(
                cast(Path, props.folder),
                rights,
                settings,
                variables,
                about=f"Once: consumer {props.name}",
                timeout_seconds=self.props.timeout_seconds,
                memory_mb=self.props.memory_mb,
                aws_services=props.aws_services,
                reserved_concurrency=self.props.reserved_concurrency,
                snap_start=self.props.snap_start,
                # The relay dead-letters a type that it does not know yet.
                after=[relay.alias] if relay else [],
            )
            mapping = _queues.map_queue(
                self,
                "Mapping",
                self.alias,
                self.queue,
                _queues.mapping_demands(self.props),
                metrics=config.alarms == ALL,  # the alarm on messages that are not handed over
                standby=config.standby,
            )
            # A deployment that adds a type moves the alias before the subscription delivers it: the
            # earlier version would dead-letter it.
            serving = [self.alias, mapping]
            if self.isolation is not None:
                demands = self.alias, self.isolation, _queues.ISOLATION_DEMANDS
                part = "IsolationMapping"
                serving.append(_queues.map_queue(self, part, *demands, standby=config.standby))
        if topics is not None:
            topics.subscribe(self.queue, props, dead_letters=self.dead_letters, after=serving)
        if queue is None:
            parts = (self.queue, self.dead_letters)
            connect(TargetQueue(self, self.props, config, *parts, serving), bucket)
        _queues.retain_messages(self, config)
        self.takes_due = not later.isdisjoint(props.events)
        alarms = monitor_consumer(self, self.props, queues, mapping, takes_due=self.takes_due)
        if mapping is not None:
            self._shift_gradually(self.props.rollout, alarms)

    def _make_queue(self, part: str, name: str, receives: int) -> sqs.Queue:
        # In the last receive the library itself dead-letters a message that fails, with a reason.
        # SQS moves those that end the function in it. On a FIFO queue it must not take messages out
        # of their group, as SQS counts receives of those that wait for another one.
        fifo = self.props.fifo
        limit = Limits.MAX_RECEIVE_COUNT if fifo else receives
        return _queues.make_queue(
            self,
            part,
            name,
            Limits.QUEUE_RETENTION_SECONDS,
            config=self.config,
            fifo=fifo,
            visibility_timeout=Duration.seconds(self.props.visibility),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=limit),
        )

    def _handler_variables(self, secrets: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that its handlers read, and the library does not."""
        props, config = self.props, self.config
        return {
            **{f"SECRET_{name.upper()}": arn for name, arn in secrets.items()},
            **{name.upper(): config.parameters[name] for name in props.parameters},
            **{workflow_variable(each.name): each.arn for each in props.starts},
            **{
                retention_variable(each.name): str(each.retention_days)
                for each in props.starts
                if isinstance(each, DurableFunctionProps)
            },
            **({"EMAIL_SENDER": config.email_sender} if props.sends_email else {}),
        }


def _unbuildable(props: ConsumerProps, faults: Sequence[str]) -> SynthError:
    return SynthError(f"consumer {props.name!r} cannot be built", faults)
