"""The construct that publishes what consumers have committed to their outboxes."""

from collections.abc import Mapping
from typing import Any

import jsii
from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct

from once.cdk.config import Config
from once.cdk.lambda_function import make_function, make_log_group
from once.cdk.monitoring.alarms import add_relay_alarms
from once.cdk.monitoring.dashboard import Row, relay_row
from once.cdk.nag import acknowledge
from once.cdk.permissions import relay_role
from once.cdk.props import FUNCTIONS
from once.cdk.queues import make_dead_letters
from once.schema import RELAY, Record
from once.settings import RelaySettings

MEMORY_MB = 512
BATCH_SIZE = 100
RETRIES = 100
"""Each waits out the function's own time: hours of a topic that takes nothing, before a batch is
given up. What is poison in itself is dead-lettered by the function, without a retry."""
MAX_AGE = Duration.hours(12)
"""Half of what the stream keeps: a batch is given up, and kept, well before it would be lost."""

OUTBOX: dict[str, Any] = {
    "eventName": lambda_.FilterRule.or_("INSERT", "MODIFY"),
    "dynamodb": {"NewImage": {Record.OUTBOX: {"S": lambda_.FilterRule.exists()}}},
}
"""Records with events to publish. The function itself tells which of them are new commits."""


@jsii.implements(lambda_.IEventSourceDlq)
class PayloadsTo:
    """Where a batch goes that was given up. The role already has the rights it takes."""

    def __init__(self, bucket: s3.IBucket) -> None:
        self._arn = bucket.bucket_arn

    def bind(
        self, target: lambda_.IEventSourceMapping, target_handler: lambda_.IFunction
    ) -> lambda_.DlqDestinationConfig:
        """Return the destination, for the mapping."""
        del target, target_handler
        return lambda_.DlqDestinationConfig(destination=self._arn)


class OutboxRelay(Construct):
    """The function on the dedup table's stream, its dead letters and its alarms.

    The function dead-letters by itself what cannot be published; a batch that it fails on again
    and again is halved, and what is left of it goes whole into the bucket. `function`, `role` and
    `dead_letters` are its parts.

    Args:
        scope: the stack.
        config: the deployment.
        topic: where it publishes.
        publishes: the event types that each consumer may publish.
        dedup_table: the table of dedup records, with a stream of both images.
        failures: the bucket for batches that were given up.

    Raises:
        SynthError: the function's package cannot be built.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        config: Config,
        topic: sns.ITopic,
        publishes: Mapping[str, tuple[str, ...]],
        dedup_table: dynamodb.ITable,
        failures: s3.IBucket,
    ) -> None:
        super().__init__(scope, RELAY)
        self._config = config
        self._name = f"{config.service}-{RELAY}"
        self._stream = str(dedup_table.table_stream_arn)
        self.dead_letters = make_dead_letters(self, self._name)
        acknowledge(
            self.dead_letters,
            "AwsSolutions-SQS3",
            "It is itself a queue of dead letters, which the function sends by hand.",
        )
        log_group = make_log_group(self, self._name)
        self.role = relay_role(
            self,
            stream_arn=self._stream,
            topic=topic,
            dead_letters=self.dead_letters,
            failures=failures,
            log_group=log_group,
            local=config.local,
        )
        self.function = self._make_function(topic, publishes, log_group)
        self._mapping = self._map(failures)
        add_relay_alarms(self, self._name, self.dead_letters, self.function, self._mapping)

    def dashboard_row(self) -> Row:
        """Return the relay's graphs."""
        return relay_row(
            RELAY,
            self._name,
            dead_letters=self.dead_letters,
            function=self.function,
            mapping=self._mapping,
        )

    def _make_function(
        self, topic: sns.ITopic, publishes: Mapping[str, tuple[str, ...]], log_group: logs.ILogGroup
    ) -> lambda_.Function:
        settings = RelaySettings(
            service=self._config.service,
            topic_arn=topic.topic_arn,
            dead_letter_url=self.dead_letters.queue_url,
            publishes=publishes,
            time_margin_ms=self._config.time_margin_ms,
        )
        return make_function(
            self,
            RELAY,
            FUNCTIONS / RELAY,
            config=self._config,
            role=self.role,
            log_group=log_group,
            timeout_seconds=self._config.relay_timeout_seconds,
            memory_mb=MEMORY_MB,
            environment=settings.to_env(),
        )

    def _map(self, failures: s3.IBucket) -> lambda_.EventSourceMapping:
        return lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=self.function,
            event_source_arn=self._stream,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            filters=[lambda_.FilterCriteria.filter(OUTBOX)],
            batch_size=BATCH_SIZE,
            parallelization_factor=1,
            bisect_batch_on_error=True,
            retry_attempts=RETRIES,
            max_record_age=MAX_AGE,
            on_failure=PayloadsTo(failures),
            support_s3_on_failure_destination=True,
            # The only sign of a batch in the bucket: its own failures look like any retry's.
            metrics_config=lambda_.MetricsConfig(metrics=[lambda_.MetricType.EVENT_COUNT]),
        )
