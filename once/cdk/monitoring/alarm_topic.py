"""The topic that every alarm notifies when it begins and ends. Operators subscribe to it."""

from collections.abc import Iterable

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct, IConstruct

from once.cdk.customer_keys import imported_key
from once.cdk.deployment_options import DeploymentConfig

CLOUDWATCH = "cloudwatch.amazonaws.com"


def make_alarm_topic(scope: Construct, config: DeploymentConfig | None = None) -> sns.Topic:
    """Return an encrypted topic to which the alarms of this account and region may publish.

    Args:
        scope: the stack.
        config: the deployment; by default that of the CDK context.
    """
    config = config or DeploymentConfig.from_context(scope.node)
    key = imported_key(scope, config.keys.topics) or _make_key(scope)
    topic = sns.Topic(scope, "Alarms", master_key=key, enforce_ssl=True)
    alarms = Stack.of(scope).format_arn(
        service="cloudwatch",
        resource="alarm",
        resource_name="*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    # An explicit policy replaces the default policy, by which the account itself may publish.
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            sid="Alarms",
            principals=[iam.ServicePrincipal(CLOUDWATCH)],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={"ArnLike": {"aws:SourceArn": alarms}},
        )
    )
    return topic


def notify(topic: sns.ITopic, tree: Iterable[IConstruct]) -> None:
    """Let every alarm in the tree notify the topic when it begins and when it ends."""
    action = actions.SnsAction(topic)
    for construct in tree:
        if isinstance(construct, cloudwatch.Alarm):
            construct.add_alarm_action(action)
            construct.add_ok_action(action)


def _make_key(scope: Construct) -> kms.Key:
    # CloudWatch may not use the AWS managed key of SNS: it would drop notifications silently.
    key = kms.Key(
        scope,
        "AlarmKey",
        description="Once: encrypts what alarms say on their way to subscribers",
        enable_key_rotation=True,
        # It encrypts no stored data.
        removal_policy=RemovalPolicy.DESTROY,
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid="Alarms",
            principals=[iam.ServicePrincipal(CLOUDWATCH)],
            actions=["kms:Decrypt", "kms:GenerateDataKey*"],
            resources=["*"],  # in a key's own policy: this key
        )
    )
    return key
