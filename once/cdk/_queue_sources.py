"""Queue sources: rule, notification, subscription, queue policy or schedule of a consumer's queue.

Each makes the CloudFormation resource that delivers into the queue, and the statements that let no
other resource send.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import jsii
from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from once import event_sources
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.nag import acknowledge_finding
from once.cdk.permissions import allow, key_statements
from once.cdk.props import ConsumerProps
from once.cdk.topics import NO_EVENT, subscribe
from once.names import EVENT_TYPE_ATTRIBUTE


@dataclass(frozen=True, slots=True)
class TargetQueue:
    """The queue of a consumer, into which its source delivers.

    `dead_letters` get the events that it cannot deliver. A deployment changes the parts in `after`
    before the source: they must handle its types.
    """

    scope: Construct
    props: ConsumerProps
    config: DeploymentConfig
    queue: sqs.IQueue
    dead_letters: sqs.Queue
    after: Sequence[IDependable]

    @property
    def name(self) -> str:
        """The physical name of its rule or schedule."""
        return f"{self.config.service}-{self.props.name}"

    @property
    def state(self) -> str:
        """The state of its rule or schedule."""
        return "DISABLED" if self.props.retiring or self.config.standby else "ENABLED"

    def allow(
        self,
        sid: str,
        principal: iam.IPrincipal,
        conditions: Mapping[str, Any] | None = None,
        *,
        dead_letters: bool = False,
    ) -> list[IDependable]:
        """Let a principal send to the queue, or also to the dead letters; return the policies.

        A source must not deliver before its policies exist.
        """
        policies: list[IDependable] = []
        for queue in (self.queue, self.dead_letters)[: 1 + dead_letters]:
            send, arn = ["sqs:SendMessage"], queue.queue_arn
            statement = allow(sid, send, arn, conditions=conditions, principal=principal)
            added = queue.add_to_resource_policy(statement)
            policies += [added.policy_dependable] if added.policy_dependable else []
        return policies


def connect(to: TargetQueue, bucket: s3.IBucket | None) -> None:
    """Make the resources that deliver the events of the consumer's source into its queue.

    `bucket` is that of `Source.s3()` without a name.
    """
    match to.props.source:
        case event_sources.EventBridgeSource() as source:
            _make_rule(to, source)
        case event_sources.S3Source() as source:
            _notify_queue(to, source, bucket)
        case event_sources.SnsSource() as source:
            _subscribe_to_topic(to, source)
        case event_sources.JsonSource() as source:
            # The principals that may send to the queue themselves.
            for number, arn in enumerate(() if to.props.retiring else source.senders):
                to.allow(f"Sender{number}", iam.ArnPrincipal(arn))
        case event_sources.ScheduleSource() as source:
            _make_schedule(to, source)


def _make_rule(to: TargetQueue, source: event_sources.EventBridgeSource) -> None:
    """Make the rule, and let it alone send to the queue. A retiring consumer's is disabled."""
    bus = None if source.bus == "default" else source.bus
    # By name: a reference to the rule would be circular, as it must not exist before the policy.
    path = f"{bus}/{to.name}" if bus else to.name
    arn = Stack.of(to.scope).format_arn(service="events", resource="rule", resource_name=path)
    policies = to.allow(
        "OnlyItsRuleSends",
        iam.ServicePrincipal("events.amazonaws.com"),
        {"ArnEquals": {"aws:SourceArn": arn}},
        dead_letters=True,
    )
    rule = events.CfnRule(
        to.scope,
        "Rule",
        name=to.name,
        event_bus_name=bus,
        event_pattern={"source": list(source.sources), "detail-type": list(to.props.external)},
        state=to.state,
        targets=[
            events.CfnRule.TargetProperty(
                id="Queue",
                arn=to.queue.queue_arn,
                dead_letter_config=events.CfnRule.DeadLetterConfigProperty(
                    arn=to.dead_letters.queue_arn
                ),
            )
        ],
    )
    rule.node.add_dependency(*policies, *to.after)


def _subscribe_to_topic(to: TargetQueue, source: event_sources.SnsSource) -> None:
    """Subscribe the queue to an existing topic, in SNS's envelope.

    A retiring consumer, or one without types, keeps it with a filter that selects no message: AWS
    retains a subscription that leaves the stack, and would still deliver to the queue.
    """
    idle = to.props.retiring or not to.props.external
    selected = [NO_EVENT] if idle else list(to.props.external)
    attribute = source.attribute or (EVENT_TYPE_ATTRIBUTE if idle else None)
    policy = sns.SubscriptionFilter.string_filter(allowlist=selected)
    topic = sns.Topic.from_topic_arn(to.scope, "Topic", source.topic)
    has_dead_letters = to.props.fifo or to.config.fifo_topic_dead_letters or not topic.fifo
    subscription = subscribe(
        topic,
        to.queue,
        raw_message_delivery=False,
        filter_policy={attribute: policy} if attribute else None,
        dead_letter_queue=to.dead_letters if has_dead_letters else None,
    )
    subscription.node.add_dependency(*to.after)


_EVENTS = {
    "ObjectCreated": s3.EventType.OBJECT_CREATED,
    "ObjectRemoved": s3.EventType.OBJECT_REMOVED,
}
_HANDLER = "BucketNotificationsHandler050a0587b7544547bf325f094a3db834"
"""Id of the function by which the CDK writes the notifications of buckets."""


def _notify_queue(
    to: TargetQueue, source: event_sources.S3Source, bucket: s3.IBucket | None
) -> None:
    """Add the queue to the bucket's notifications, of which all others stay.

    The deployment of a retiring consumer takes its queue out of them.
    """
    if to.props.retiring:
        return
    # Imported by name: a bucket of another stack would make a circle of the two stacks.
    name = source.bucket if bucket is None else bucket.bucket_name
    imported = s3.Bucket.from_bucket_name(to.scope, "Bucket", str(name))
    chosen = s3.NotificationKeyFilter(prefix=source.prefix or None, suffix=source.suffix or None)
    filters = [chosen] if source.prefix or source.suffix else []
    queue = _NotifiedQueue(to, imported.bucket_arn)
    if to.config.local:  # there, the CDK's function that writes the notifications lacks its SDK
        queue.allow()
        return
    for event in to.props.external:
        imported.add_event_notification(_EVENTS[event], queue, *filters)
    imported.node.add_dependency(*to.after)
    handler = cast(Construct, Stack.of(to.scope).node.find_child(_HANDLER))
    reason = "The CDK's own function, which writes the notifications of a bucket at deployment."
    for rule in (
        "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
        "AWSLambdaBasicExecutionRole]",
        "AwsSolutions-IAM5[Resource::*]",
        "AwsSolutions-L1",
    ):
        acknowledge_finding(handler, rule, reason)


@jsii.implements(s3.IBucketNotificationDestination)
class _NotifiedQueue:
    """The queue, in the form in which the CDK adds it to a bucket."""

    def __init__(self, to: TargetQueue, bucket_arn: str) -> None:
        self._to = to
        self._bucket_arn = bucket_arn

    def bind(
        self,
        scope: Construct,  # noqa: ARG002 - the CDK's interface
        bucket: Any,  # noqa: ARG002
    ) -> s3.BucketNotificationDestinationConfig:
        return s3.BucketNotificationDestinationConfig(
            arn=self._to.queue.queue_arn,
            type=s3.BucketNotificationDestinationType.QUEUE,
            dependencies=self.allow(),
        )

    def allow(self) -> list[IDependable]:
        return self._to.allow(
            "OnlyItsBucketSends",
            iam.ServicePrincipal("s3.amazonaws.com"),
            {
                "ArnEquals": {"aws:SourceArn": self._bucket_arn},
                "StringEquals": {"aws:SourceAccount": Stack.of(self._to.scope).account},
            },
        )


_SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
"""EventBridge Scheduler replaces it by the time, such as 2022-03-22T18:59:43Z."""


def _make_schedule(to: TargetQueue, source: event_sources.ScheduleSource) -> None:
    """Make a schedule that sends one event at each of its times, with a role for these queues only.

    The event's id is the time for which the schedule invokes the queue. EventBridge Scheduler
    delivers at least once: a second delivery for one time is a duplicate.
    """
    [event_type] = to.props.external
    event = {
        "specversion": "1.0",
        "id": _SCHEDULED_TIME,
        "source": f"{to.config.service}-{to.props.identity}",  # the same before and after a rename
        "type": event_type,
        "data": {"scheduled_at": _SCHEDULED_TIME},
    }
    group = Stack.of(to.scope).format_arn(
        service="scheduler", resource="schedule-group", resource_name="default"
    )
    only_here = {
        "StringEquals": {"aws:SourceAccount": Stack.of(to.scope).account},
        "ArnEquals": {"aws:SourceArn": group},
    }
    send = allow("Send", ["sqs:SendMessage"], to.queue.queue_arn, to.dead_letters.queue_arn)
    keys = key_statements(to.scope, [("sqs", to.queue.encryption_master_key)])
    role = iam.Role(
        to.scope,
        "ScheduleRole",
        assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com", conditions=only_here),
        inline_policies={"Schedule": iam.PolicyDocument(statements=[send, *keys])},
    )
    schedule = scheduler.CfnSchedule(
        to.scope,
        "Schedule",
        name=to.name,
        schedule_expression=source.expression,
        schedule_expression_timezone=source.timezone,
        flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
        state=to.state,
        target=scheduler.CfnSchedule.TargetProperty(
            arn=to.queue.queue_arn,
            role_arn=role.role_arn,
            input=json.dumps(event),
            dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                arn=to.dead_letters.queue_arn
            ),
        ),
    )
    schedule.node.add_dependency(*to.after)
