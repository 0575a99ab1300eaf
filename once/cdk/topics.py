"""The two topics: producers publish to `ingress`, and the relay alone publishes to `events`."""

from dataclasses import dataclass
from typing import Self

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct


@dataclass(frozen=True, slots=True)
class Topics:
    """Where events come from: producers (`ingress`), and consumers through the relay (`events`)."""

    ingress: sns.Topic
    events: sns.Topic

    @classmethod
    def make(cls, scope: Construct) -> Self:
        """Return both topics, encrypted and for TLS only, with their ARNs as outputs."""
        # The key that AWS keeps for SNS: any principal of this account may publish through it.
        key = kms.Alias.from_alias_name(scope, "TopicKey", "alias/aws/sns")
        topics = cls(
            ingress=sns.Topic(scope, "Ingress", master_key=key, enforce_ssl=True),
            events=sns.Topic(scope, "Events", master_key=key, enforce_ssl=True),
        )
        CfnOutput(scope, "IngressTopicArn", value=topics.ingress.topic_arn)
        CfnOutput(scope, "EventsTopicArn", value=topics.events.topic_arn)
        return topics


def only_publisher(topic: sns.Topic, role: iam.IRole, *, local: bool) -> None:
    """Deny every principal but this role to publish, whatever its own policies allow.

    A denial without an exception for administrators: they can change the policy, and that shows.
    """
    arns = [role.role_arn]
    if local:  # the embedded AWS takes the ARN of a role's session for that of its principal
        session = f"{role.role_name}/*"
        arns.append(
            Stack.of(topic).format_arn(
                service="sts", region="", resource="assumed-role", resource_name=session
            )
        )
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            sid="OnlyTheRelayPublishes",
            effect=iam.Effect.DENY,
            principals=[iam.AnyPrincipal()],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            # Also true where the request has no principal's ARN, as those of AWS services.
            conditions={"ArnNotEquals": {"aws:PrincipalArn": arns}},
        )
    )
