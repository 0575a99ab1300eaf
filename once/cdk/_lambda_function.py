"""Lambda functions: packaged, on arm64, traced, with a stable name and a log group."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

from aws_cdk import Annotations, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from once.cdk.customer_keys import imported_key
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.nag import acknowledge_finding
from once.cdk.packaging.bytecode import bytecode_excludes, compiler_for
from once.cdk.packaging.function_package import package
from once.schema import OTLP_ENDPOINT, Limits

TRACED = lambda_.CfnFunction.TracingConfigProperty(mode="Active")


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
    _check_size(full_name, environment)
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
        layers=_layers(scope, config),
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
    resource.tracing_config = TRACED
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
        # On the stack, so that the warning appears once and not for each function.
        Annotations.of(Stack.of(scope)).add_warning_v2("once:no-bytecode", _slow(config))
    return function


def _layers(scope: Construct, config: DeploymentConfig) -> list[lambda_.ILayerVersion] | None:
    layers = [
        lambda_.LayerVersion.from_layer_version_arn(scope, f"Layer{number}", arn)
        for number, arn in enumerate(config.layers)
    ]
    return layers or None


def _check_size(name: str, environment: Mapping[str, str]) -> None:
    # Names of deployed resources, which are longer than their tokens, come on top of this.
    size = sum(len(f"{variable}{value}".encode()) for variable, value in environment.items())
    if size > Limits.ENVIRONMENT_BYTES:
        fault = (
            f"its environment variables have at least {size} bytes, and Lambda takes "
            f"{Limits.ENVIRONMENT_BYTES}; give it fewer or shorter event types, or split the "
            "consumer in two"
        )
        raise SynthError(f"the function {name!r} cannot be built", [fault])


def _slow(config: DeploymentConfig) -> str:
    python = f"python{config.python_runtime}"
    return (
        f"every cold start compiles all that the function imports: there is no {python} here to "
        f"compile it beforehand; put {python} on the PATH, or leave python_runtime out"
    )
