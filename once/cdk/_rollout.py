"""Rollout of a function: mappings invoke an alias, and the alias points to a published version.

A version is an immutable copy of code and configuration. Moving the alias therefore changes code
and environment variables in one step. CloudFormation updates `$LATEST` in two steps, between which
new code could run under old variables.
"""

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IDependable

from once.cdk.nag import acknowledge_finding
from once.cdk.props import Rollout
from once.schema import LIVE_ALIAS


def make_alias(
    scope: Construct, function: lambda_.Function, *, after: Sequence[IDependable] = ()
) -> lambda_.Alias:
    """Return the alias of the function's current version.

    Args:
        scope: the construct that owns the function.
        function: the function.
        after: parts that a deployment changes before the alias moves.
    """
    alias = lambda_.Alias(scope, "Live", alias_name=LIVE_ALIAS, version=function.current_version)
    if function.role is not None:  # with the policies that an app has added to it
        alias.node.add_dependency(function.role)
    alias.node.add_dependency(*after)
    return alias


def shift_gradually(
    scope: Construct,
    alias: lambda_.Alias,
    rollout: Rollout,
    alarms: Sequence[cloudwatch.IAlarm],
) -> None:
    """Let CodeDeploy move the alias, and move it back if one of the alarms fires meanwhile.

    Without effect for `Rollout.ALL_AT_ONCE`, with which CloudFormation moves the alias itself.
    """
    if rollout is Rollout.ALL_AT_ONCE:
        return
    group = codedeploy.LambdaDeploymentGroup(
        scope,
        "Rollout",
        alias=alias,
        deployment_config=getattr(codedeploy.LambdaDeploymentConfig, rollout.name),
        alarms=list(alarms),
        auto_rollback=codedeploy.AutoRollbackConfig(
            failed_deployment=True, stopped_deployment=True, deployment_in_alarm=True
        ),
    )
    acknowledge_finding(
        group,
        "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSCodeDeployRoleForLambdaLimited]",
        "AWS's own policy for CodeDeploy on Lambda, without access to Amazon SNS.",
    )
