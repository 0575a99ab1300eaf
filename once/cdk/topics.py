"""The two topics: producers publish to `ingress`, and the relay alone publishes to `events`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct, DependencyGroup, IDependable

from once.cdk._queues import retain_messages
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.props import ConsumerProps
from once.schema import EVENT_TYPE_ATTRIBUTE, StackOutput

NO_EVENT = "once, no event"
"""A text that is no event type: a filter policy that selects it selects nothing."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics that consumers subscribe to.

    Attributes:
        ingress: the topic of the producers.
        events: the topic of the events that consumers publish through the relay.
        subscribed: the subscriptions of consumers, those made later included.
    """

    ingress: sns.Topic
    events: sns.Topic
    subscribed: DependencyGroup = field(default_factory=DependencyGroup, init=False)

    @classmethod
    def make(cls, scope: Construct, *, config: DeploymentConfig | None = None) -> Self:
        """Return both topics, encrypted and for TLS only, with their ARNs as outputs.

        Args:
            scope: the stack.
            config: the deployment; by default that of the CDK context.
        """
        # The AWS managed key of SNS: any principal of this account may publish with it.
        key = kms.Alias.from_alias_name(scope, "TopicKey", "alias/aws/sns")
        topics = cls(
            ingress=sns.Topic(scope, "Ingress", master_key=key, enforce_ssl=True),
            events=sns.Topic(scope, "Events", master_key=key, enforce_ssl=True),
        )
        for topic in (topics.ingress, topics.events):
            retain_messages(topic, config or DeploymentConfig.from_context(scope.node))
        CfnOutput(scope, StackOutput.INGRESS_TOPIC, value=topics.ingress.topic_arn)
        CfnOutput(scope, StackOutput.EVENTS_TOPIC, value=topics.events.topic_arn)
        return topics

    def subscribe(
        self,
        queue: sqs.IQueue,
        props: ConsumerProps,
        *,
        dead_letters: sqs.IQueue | None,
        after: Sequence[IDependable],
    ) -> None:
        """Deliver the events that a consumer takes into its queue.

        Those of a retiring consumer select no event: deleted, a subscription of AWS would be
        retained, and would still deliver.

        Args:
            queue: the queue.
            props: the consumer.
            dead_letters: the queue for events that SNS cannot deliver, if there is one.
            after: parts that a deployment changes before the subscription: they must handle the
                types that it adds.
        """
        for topic, types in ((self.ingress, props.ingress_types), (self.events, props.events)):
            if types:
                selected = [NO_EVENT] if props.retiring else list(types)
                policy = sns.SubscriptionFilter.string_filter(allowlist=selected)
                subscription = topic.add_subscription(
                    subscriptions.SqsSubscription(
                        queue,
                        raw_message_delivery=True,
                        filter_policy={EVENT_TYPE_ATTRIBUTE: policy},
                        dead_letter_queue=dead_letters,
                    )
                )
                subscription.node.add_dependency(*after)
                self.subscribed.add(subscription)

    def restrict_events_to(self, role: iam.IRole, *, local: bool) -> None:
        """Deny publishing to `events` to every principal except this role.

        Args:
            role: the role of the outbox relay.
            local: whether the topics go into the embedded AWS.
        """
        arns = [role.role_arn]
        if local:  # on the embedded AWS `aws:PrincipalArn` is the ARN of the role's session
            session = f"{role.role_name}/*"
            arns.append(
                Stack.of(self.events).format_arn(
                    service="sts", region="", resource="assumed-role", resource_name=session
                )
            )
        # No exception for administrators: they can change the policy, which is logged.
        self.events.add_to_resource_policy(
            iam.PolicyStatement(
                sid="OnlyTheRelayPublishes",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["sns:Publish"],
                resources=[self.events.topic_arn],
                # Also true for a request without a principal's ARN, such as one of an AWS service.
                conditions={"ArnNotEquals": {"aws:PrincipalArn": arns}},
            )
        )
