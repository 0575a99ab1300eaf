"""The construct behind every line of the registry."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.contract import EVENT_TYPE_ATTRIBUTE, Limits
from once.settings import Settings, TableSettings
from stacks.config import Config
from stacks.monitoring import add_alarms, dashboard_row
from stacks.package import package
from stacks.permissions import function_role
from stacks.registry import Consumer
from stacks.strays import MARK


class IdempotentConsumer(Construct):
    """A queue, its dead letters, and the one function that may consume it.

    `line` is the consumer as it is deployed here; `queue`, `dead_letters` and `function` are its
    parts.

    Args:
        scope: the stack.
        consumer: its line of the registry.
        config: the deployment.
        topic: where its events are published.
        dedup_table: the table of dedup records.
        tables: the business tables it may write, by the name its handlers use.

    Raises:
        SynthError: the function's package cannot be built.
    """

    def __init__(
        self,
        scope: Construct,
        consumer: Consumer,
        *,
        config: Config,
        topic: sns.ITopic,
        dedup_table: dynamodb.ITable,
        tables: Mapping[str, dynamodb.ITable],
    ) -> None:
        super().__init__(scope, consumer.name)
        self.node.add_metadata(MARK, consumer.name)
        self.line = config.adapt(consumer)
        self._config = config
        self._name = f"{config.service}-{consumer.name}"
        self.dead_letters = self._make_queue(
            "DeadLetters", f"{self._name}-dead-letters", Limits.DEAD_LETTER_RETENTION_SECONDS
        )
        self.queue = self._make_queue(
            "Queue",
            self._name,
            Limits.QUEUE_RETENTION_SECONDS,
            visibility_timeout=Duration.seconds(self.line.visibility),
            dead_letter_queue=self._redrive(),
        )
        self.function = self._make_function(dedup_table, tables)
        self._map()
        self._subscribe(topic)
        add_alarms(self, self._name, self.queue, self.dead_letters)

    def dashboard_row(self) -> list[cloudwatch.IWidget]:
        """Return this consumer's widgets."""
        return dashboard_row(self.line.name, self.queue, self.dead_letters, self.function)

    def _make_queue(self, part: str, name: str, retention: int, **extra: Any) -> sqs.Queue:
        return sqs.Queue(
            self,
            part,
            queue_name=name,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.seconds(retention),
            **extra,
        )

    def _redrive(self) -> sqs.DeadLetterQueue:
        # The net under the library, which dead-letters with a reason before this comes to it.
        return sqs.DeadLetterQueue(
            queue=self.dead_letters, max_receive_count=self.line.max_receive_count
        )

    def _make_function(
        self, dedup_table: dynamodb.ITable, tables: Mapping[str, dynamodb.ITable]
    ) -> lambda_.Function:
        log_group = logs.LogGroup(
            self,
            "Log",
            log_group_name=f"/aws/lambda/{self._name}",
            retention=logs.RetentionDays.ONE_MONTH,
            # Its name is fixed: kept, it would be in the way of the next deployment.
            removal_policy=RemovalPolicy.DESTROY,
        )
        function = lambda_.Function(
            self,
            "Function",
            function_name=self._name,
            runtime=self._config.runtime,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"functions.{self.line.name}.handler.lambda_handler",
            # Whoever imports from the staged folder leaves bytecode in it.
            code=lambda_.Code.from_asset(
                str(package(self.line, self._config)), exclude=["**/__pycache__"]
            ),
            timeout=Duration.seconds(self.line.timeout_seconds),
            memory_size=self.line.memory_mb,
            log_group=log_group,
            role=function_role(
                self,
                tables=[dedup_table, *tables.values()],
                queue=self.queue,
                dead_letters=self.dead_letters,
                log_group=log_group,
            ),
            environment=self._environment(dedup_table, tables),
        )
        Validations.of(function).acknowledge(
            Acknowledgment(
                id="AwsSolutions-L1",
                reason="The runtime is the Python version that the tests ran on, which "
                "may be older than the newest that Lambda offers.",
            )
        )
        return function

    def _environment(
        self, dedup_table: dynamodb.ITable, tables: Mapping[str, dynamodb.ITable]
    ) -> dict[str, str]:
        settings = Settings(
            consumer=self.line.name,
            event_types=self.line.events,
            queue_url=self.queue.queue_url,
            dead_letter_url=self.dead_letters.queue_url,
            dedup_table=dedup_table.table_name,
            tables={
                table.name: TableSettings(name=tables[table.name].table_name, key=table.keys)
                for table in self.line.tables
            },
            dedup_window_seconds=self._config.dedup_window_seconds,
            max_receive_count=self.line.max_receive_count,
            **self._config.times,
        )
        return {
            **settings.to_env(),
            "POWERTOOLS_SERVICE_NAME": self._name,
            "POWERTOOLS_LOG_LEVEL": self._config.log_level,
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

    def _subscribe(self, topic: sns.ITopic) -> None:
        events = sns.SubscriptionFilter.string_filter(allowlist=list(self.line.events))
        topic.add_subscription(
            subscriptions.SqsSubscription(
                self.queue,
                raw_message_delivery=True,
                filter_policy={EVENT_TYPE_ATTRIBUTE: events},
            )
        )
