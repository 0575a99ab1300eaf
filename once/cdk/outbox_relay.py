"""The construct of the outbox relay, which publishes the events of committed dedup records.

If some are published later, it creates a schedule for each of these, and EventBridge Scheduler
publishes them with a role of its own.
"""

from collections.abc import Collection, Mapping
from typing import Any, cast

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from constructs import Construct

from once.cdk import functions
from once.cdk._lambda_function import FunctionConstruct
from once.cdk._queues import make_dead_letters, retain_messages
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.monitoring import monitor_relay
from once.cdk.nag import acknowledge_finding, acknowledge_pattern, as_referenced
from once.cdk.permissions import LOG_ACTIONS, STREAM_ACTIONS, allow, function_role, key_statements
from once.cdk.retained_data import RelayFailures, ScheduleGroup
from once.cdk.synth_error import SynthError
from once.cdk.topics import Topics
from once.names import RELAY, Record
from once.settings import RelaySettings, ScheduleSettings

MEMORY_MB = 512
BATCH_SIZE = 100
RELAY_SERVICES = ("scheduler",)
"""The AWS services that it calls to publish later, besides those of every function."""
RETRIES = 100
"""Each retry lasts up to the function's timeout: SNS may be unavailable for hours before a batch
has failed. The function dead-letters poison records itself, without a retry."""
MAX_AGE = Duration.hours(12)
"""Half the stream's retention: a failed batch is in the bucket well before its loss."""

OUTBOX: dict[str, Any] = {
    "eventName": lambda_.FilterRule.or_("INSERT", "MODIFY"),
    "dynamodb": {"NewImage": {Record.OUTBOX: {"S": lambda_.FilterRule.exists()}}},
}
"""Stream records with events to publish. The function decides which of them are new commits."""


class OutboxRelay(FunctionConstruct):
    """The function on the dedup table's stream, its dead letters and its alarms.

    The function dead-letters an event that cannot be published. While it fails on a whole batch,
    Lambda retries the batch in halves, and writes the failing records into the bucket in the end.
    The attributes are its parts; `publishes` are the event types that each consumer may publish,
    `groups` the message groups of these types, `publishers` the roles that publish them.
    The stream invokes `alias`, which points to a published version of `function`.

    Args:
        topics: the topics. It publishes to `events`, and ordered types to `ordered_events`.
        publishes: the event types that each consumer may publish, by its identity, as
            `published_types` returns them.
        publishes_later: those of these types that are published later, as `later_types` returns
            them.
        dedup_table: the table of dedup records, with a stream of both images.
        failures: the bucket for failed batches; by default the construct makes one.
        schedules: the group of the events that wait; by default the construct makes one, if some
            type is published later.

    Raises:
        SynthError: the table has no stream, an ordered type has no FIFO topic, or the function's
            package cannot be built.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        topics: Topics,
        publishes: Mapping[str, tuple[str, ...]],
        publishes_later: Collection[str] = (),
        dedup_table: dynamodb.ITable,
        failures: s3.IBucket | None = None,
        schedules: scheduler.CfnScheduleGroup | None = None,
        config: DeploymentConfig | None = None,
    ) -> None:
        config = config or DeploymentConfig.from_context(scope.node)
        super().__init__(scope, RELAY, config)
        self.publishes, stream_arn = publishes, dedup_table.table_stream_arn
        self.publishes_later = frozenset(publishes_later)
        self.groups = topics.groups.among({t for types in publishes.values() for t in types})
        events, ordered = topics.events, topics.ordered_events
        if stream_arn is None:
            fault = (
                "the dedup table has no stream; make it with DedupTable, or import it with the ARN "
                "of its stream of new and old images"
            )
            raise SynthError("the outbox relay cannot be built", [fault])
        if events is None or (self.groups.ordered and ordered is None):
            fault = (
                "its topics= lack one for the types that it publishes; give Topics.make all "
                "consumers=, and these types in published=, and take none of them in external="
            )
            raise SynthError("the outbox relay cannot be built", [fault])
        failures = failures or RelayFailures(self, "Failures", key=config.keys.buckets)
        if self.publishes_later and schedules is None:
            schedules = ScheduleGroup(self, "Schedules")
        # Without a name: it is retained when the last type leaves, and must not stand in the way of
        # the next one.
        self.dead_letters = make_dead_letters(self, None, config=config)
        acknowledge_finding(
            self.dead_letters,
            "AwsSolutions-SQS3",
            "It is itself a dead-letter queue, to which the function sends messages.",
        )
        retain_messages(self, config)
        # On AWS this action includes batches; the embedded AWS has an action for batches.
        publish = ["sns:Publish", *(["sns:PublishBatch"] if config.local else [])]
        topic_arns = [topic.topic_arn for topic in topics.of_consumers]
        # Lambda itself writes the failed batches, with the function's role.
        places = failures.bucket_arn, failures.arn_for_objects("*")
        ours = {"StringEquals": {"s3:ResourceAccount": Stack.of(self).account}}
        uses = [
            ("dynamodb", dedup_table.encryption_key),
            ("sns", config.keys.topics),
            ("sqs", self.dead_letters.encryption_master_key),
            ("s3", failures.encryption_key),
        ]
        statements = [
            allow("ReadStream", STREAM_ACTIONS, stream_arn),
            allow("Publish", publish, *topic_arns),
            allow("Quarantine", ["sqs:SendMessage"], self.dead_letters.queue_arn),
            allow("KeepFailures", ["s3:PutObject", "s3:ListBucket"], *places, conditions=ours),
            allow("Log", LOG_ACTIONS, self.log_group.log_group_arn),
            *key_statements(self, uses),
        ]
        waiting, later = None, list[iam.Role]()
        if schedules is not None:
            later = [self._schedule_role(schedules, events, config)]
            statements += self._schedule_statements(schedules, *later)
            waiting = ScheduleSettings(
                group=schedules.ref,
                role_arn=later[0].role_arn,
                dead_letter_arn=self.dead_letters.queue_arn,
            )
        role = function_role(self, "Relay", statements, config)
        self.publishers = (role, *later)
        if schedules is not None:
            every = self._schedules_in(as_referenced(self, schedules.ref))
            acknowledge_pattern(role, every, "The name of a schedule has an event's id.")
        bucket = as_referenced(self, failures.bucket_arn)
        reason = "Lambda itself names the objects that it writes into the bucket."
        acknowledge_pattern(role, f"{bucket}/*", reason)
        settings = RelaySettings(
            service=config.service,
            topic_arn=events.topic_arn,
            dead_letter_url=self.dead_letters.queue_url,
            publishes=publishes,
            time_margin_ms=config.time_margin_ms,
            ordered_topic_arn=None if ordered is None else ordered.topic_arn,
            schedules=waiting,
            **self.groups.settings,
        )
        self._make_function(
            functions.FOLDER / RELAY,
            role,
            settings,
            about="Once: publishes the events of committed dedup records",
            timeout_seconds=10 if config.local else 60,
            memory_mb=MEMORY_MB,
            aws_services=RELAY_SERVICES if later else (),
        )
        self.mapping = lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=self.alias,
            event_source_arn=stream_arn,
            # The stream of a replica has the records of the Region in charge, too.
            enabled=False if config.standby else None,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            filters=[lambda_.FilterCriteria.filter(OUTBOX)],
            batch_size=BATCH_SIZE,
            parallelization_factor=1,
            bisect_batch_on_error=True,
            retry_attempts=RETRIES,
            max_record_age=MAX_AGE,
            # The only metric of batches in the bucket: `Errors` counts every retry as well.
            metrics_config=lambda_.MetricsConfig(metrics=[lambda_.MetricType.EVENT_COUNT]),
        )
        made = cast(lambda_.CfnEventSourceMapping, self.mapping.node.default_child)
        # `on_failure=` would add a second policy to the role, which has the permissions already.
        made.destination_config = lambda_.CfnEventSourceMapping.DestinationConfigProperty(
            on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(
                destination=failures.bucket_arn
            )
        )
        self.schedule_group = None if schedules is None else schedules.ref
        monitor_relay(self, self.dead_letters, self.mapping, self.schedule_group)

    def _schedule_role(
        self, schedules: scheduler.CfnScheduleGroup, topic: sns.ITopic, config: DeploymentConfig
    ) -> iam.Role:
        """Return the role with which Scheduler publishes due events, and dead-letters them.

        It is retained with the group: without it, no event that waits could be published.
        """
        account = Stack.of(self).account
        of_group = {"aws:SourceAccount": account, "aws:SourceArn": schedules.attr_arn}
        uses = [("sns", config.keys.topics), ("sqs", self.dead_letters.encryption_master_key)]
        statements = [
            allow("Publish", ["sns:Publish"], topic.topic_arn),
            allow("Quarantine", ["sqs:SendMessage"], self.dead_letters.queue_arn),
            *key_statements(self, uses),
        ]
        role = iam.Role(
            self,
            "ScheduleRole",
            assumed_by=iam.PrincipalWithConditions(
                iam.ServicePrincipal("scheduler.amazonaws.com"), {"StringEquals": of_group}
            ),
            inline_policies={"DueEvents": iam.PolicyDocument(statements=statements)},
        )
        if not config.local:
            role.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        return role

    def _schedule_statements(
        self, schedules: scheduler.CfnScheduleGroup, role: iam.IRole
    ) -> list[iam.PolicyStatement]:
        create, of_group = ["scheduler:CreateSchedule"], self._schedules_in(schedules.ref)
        only = {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}
        return [
            allow("CreateSchedules", create, of_group),
            allow("PassScheduleRole", ["iam:PassRole"], role.role_arn, conditions=only),
        ]

    def _schedules_in(self, group: str) -> str:
        """Return the pattern of the schedules in a group."""
        return Stack.of(self).format_arn(
            service="scheduler", resource="schedule", resource_name=f"{group}/*"
        )
