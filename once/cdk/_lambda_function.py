"""Lambda functions: package, log group, and rollout by an alias of published versions.

Mappings invoke the alias. A version is an immutable copy of code and configuration, so moving the
alias changes code and environment variables in one step. CloudFormation updates `$LATEST` in two
steps, between which new code could run under old variables.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import cast

from aws_cdk import Annotations, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from once.cdk.deployment_options import DeploymentConfig, imported_key
from once.cdk.errors import SynthError
from once.cdk.nag import acknowledge_finding
from once.cdk.packaging.bytecode import bytecode_excludes, compiler_for
from once.cdk.packaging.function_package import package
from once.cdk.props import Rollout
from once.names import LIVE_ALIAS, OTLP_ENDPOINT, Limits


def make_log_group(scope: Construct, name: str, config: DeploymentConfig) -> logs.LogGroup:
    """Return the log group of the function with this physical name."""
    return logs.LogGroup(
        scope,
        "Log",
        log_group_name=f"/aws/lambda/{name}",
        encryption_key=imported_key(scope, config.keys.logs),
        retention=logs.RetentionDays.ONE_MONTH,
        # Its name is fixed: a retained log group would make the next deployment fail.
        removal_policy=RemovalPolicy.DESTROY,
    )


def make_function(
    scope: Construct,
    name: str,
    folder: Path,
    *,
    config: DeploymentConfig,
    role: iam.IRole,
    log_group: logs.ILogGroup,
    timeout_seconds: int,
    memory_mb: int,
    environment: Mapping[str, str],
    aws_services: Collection[str] | None = (),
    reserved_concurrency: int | None = None,
) -> lambda_.Function:
    """Return the function whose `handler.py` is in `folder`, and is packaged as `functions.<name>`.

    Its package has the models of the library's AWS services and of `aws_services`; None for all.

    Raises:
        SynthError: its package cannot be built, or its variables are too large for Lambda.
    """
    full_name = f"{config.service}-{name}"
    # Names of deployed resources, which are longer than their tokens, come on top of this.
    size = sum(len(f"{variable}{value}".encode()) for variable, value in environment.items())
    if size > Limits.ENVIRONMENT_BYTES:
        fault = (
            f"its environment variables have at least {size} bytes, and Lambda takes "
            f"{Limits.ENVIRONMENT_BYTES}; give it fewer or shorter event types, or split the "
            "consumer in two"
        )
        raise SynthError(f"the function {full_name!r} cannot be built", [fault])
    layers = [
        lambda_.LayerVersion.from_layer_version_arn(scope, f"Layer{number}", arn)
        for number, arn in enumerate(config.layers)
    ]
    function = lambda_.Function(
        scope,
        "Function",
        function_name=full_name,
        runtime=config.runtime,
        architecture=lambda_.Architecture.ARM_64,
        handler=f"functions.{name}.handler.lambda_handler",
        code=lambda_.Code.from_asset(
            str(package(name, folder, aws_services, config)), exclude=bytecode_excludes(config)
        ),
        timeout=Duration.seconds(timeout_seconds),
        memory_size=memory_mb,
        reserved_concurrent_executions=reserved_concurrency,
        log_group=log_group,
        role=role,
        layers=layers or None,
        environment={
            **environment,
            "POWERTOOLS_SERVICE_NAME": full_name,
            "POWERTOOLS_LOG_LEVEL": config.log_level,
            **({OTLP_ENDPOINT: config.otlp_endpoint} if config.otlp_endpoint else {}),
        },
        # Retained versions would fill the account's code storage.
        current_version_options=lambda_.VersionOptions(removal_policy=RemovalPolicy.DESTROY),
    )
    resource = cast(lambda_.CfnFunction, function.node.default_child)
    # `tracing=` would add a second policy to the role, which has this permission already.
    resource.tracing_config = lambda_.CfnFunction.TracingConfigProperty(mode="Active")
    if config.network is not None:  # `vpc=` would look the VPC up, and add a policy to the role
        resource.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
            subnet_ids=list(config.network.subnets),
            security_group_ids=list(config.network.security_groups),
        )
    # The function refers to its role: cfn-lint warns of a second dependency (W3005). The alias
    # waits for policies that are added to the role.
    resource.add_deletion_override("DependsOn")
    acknowledge_finding(
        function,
        "AwsSolutions-L1",
        "The runtime is the Python version that the tests ran on, which may be older than the "
        "newest that Lambda offers.",
    )
    if compiler_for(config) is None:
        python = f"python{config.python_runtime}"
        # On the stack, so that the warning appears once and not for each function.
        Annotations.of(Stack.of(scope)).add_warning_v2(
            "once:no-bytecode",
            f"every cold start compiles all that the function imports: there is no {python} here "
            f"to compile it beforehand; put {python} on the PATH, or leave python_runtime out",
        )
    return function


def make_alias(
    scope: Construct, function: lambda_.Function, *, after: Sequence[IDependable] = ()
) -> lambda_.Alias:
    """Return the alias of the function's current version, which moves after these parts change."""
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
