"""Lambda functions: package, log group, and rollout by an alias of published versions.

Mappings invoke the alias. A version is an immutable copy of code and configuration, so moving the
alias changes code and environment variables in one step. CloudFormation updates `$LATEST` in two
steps, between which new code could run under old variables.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, cast

from aws_cdk import Annotations, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_ssm as ssm
from constructs import Construct, IDependable

from once.cdk.checks.deployment_config import endpoint_faults
from once.cdk.deployment_options import DeploymentConfig, imported_key
from once.cdk.nag import acknowledge_finding, acknowledge_pattern
from once.cdk.packaging.bytecode import bytecode_excludes, compiler_for
from once.cdk.packaging.function_package import package
from once.cdk.permissions import POLICY_CHARACTERS, allow, policy_characters
from once.cdk.props import CommandProps, ConsumerProps, Rollout, named, output_key
from once.cdk.synth_error import SynthError
from once.names import LIVE_ALIAS, OTLP_ENDPOINT, ExternalOutput, Limits, StackOutput
from once.settings import SETTINGS, Environment

PACKAGES = "packages"
"""The folder of packages beside a template of `once template`."""

_NAME_BYTES = 100
"""Bytes by which the name, URL or ARN of a resource may be longer than its token."""


class StoredSettings(NamedTuple):
    """Settings in a parameter, and the statement that allows to read those of every version."""

    parameter: IDependable
    right: iam.PolicyStatement


class FunctionConstruct(Construct):
    """A construct around one function: its log group, its role, and the alias that events invoke.

    `alias` points to a published version of `function`, which runs as `role`. `full_name` is the
    function's name, `config` the deployment. If another tool makes the function, `contract` has
    what that tool needs, by the ends of outputs' keys; else it is empty.

    Args:
        name: the construct's id, and the end of the function's name.
    """

    role: iam.Role
    function: lambda_.IFunction
    alias: lambda_.Alias

    def __init__(self, scope: Construct, name: str, config: DeploymentConfig) -> None:
        super().__init__(scope, name)
        self.contract: dict[str, str] = {}
        self.config, self.full_name = config, f"{config.service}-{name}"
        self.log_group = logs.LogGroup(
            self,
            "Log",
            log_group_name=f"/aws/lambda/{self.full_name}",
            encryption_key=imported_key(self, config.keys.logs),
            retention=logs.RetentionDays.ONE_MONTH,
            # Its name is fixed: a retained log group would make the next deployment fail.
            removal_policy=RemovalPolicy.DESTROY,
        )

    def _make_function(
        self,
        folder: Path,
        role: iam.Role,
        settings: Environment,
        variables: Mapping[str, str] = {},
        *,
        about: str,
        timeout_seconds: int,
        memory_mb: int,
        aws_services: Collection[str] | None = (),
        reserved_concurrency: int | None = None,
        snap_start: bool = False,
        after: Sequence[IDependable] = (),
    ) -> None:
        """Make the function whose `handler.py` is in `folder`, and its alias.

        `about` is its description. Its package has the models of the library's AWS services and of
        `aws_services`; None for all. The alias moves to a new version after the parts in `after`
        have changed.
        """
        config = self.config
        environment = {
            **variables,
            "POWERTOOLS_SERVICE_NAME": self.full_name,
            "POWERTOOLS_LOG_LEVEL": config.log_level,
            **({OTLP_ENDPOINT: config.otlp_endpoint} if config.otlp_endpoint else {}),
        }
        written, stored = self._write_settings(settings, environment)
        environment[SETTINGS] = written
        reads: list[IDependable] = []
        if stored is not None:
            policy = iam.Policy(self, "ReadSettings", statements=[stored.right], roles=[role])
            for arn in stored.right.resources:
                reason = "Each version reads the settings of its own."
                acknowledge_pattern(policy, arn, reason)
            reads = [policy, stored.parameter]
            aws_services = None if aws_services is None else {*aws_services, "ssm"}
        if stored is not None or "ssm" in (aws_services or ()):
            needed = {"ssm": f"the function {self.full_name!r}"}
            if faults := endpoint_faults(config, needed):
                raise SynthError(f"the function {self.full_name!r} cannot be built", faults)
        layers = [
            lambda_.LayerVersion.from_layer_version_arn(self, f"Layer{number}", arn)
            for number, arn in enumerate(config.layers)
        ]
        packaged = package(self.node.id, folder, aws_services, config)
        self.role = role
        self.function = function = lambda_.Function(
            self,
            "Function",
            function_name=self.full_name,
            description=about,
            runtime=config.runtime,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"functions.{self.node.id}.handler.lambda_handler",
            code=self._code(packaged),
            timeout=Duration.seconds(timeout_seconds),
            memory_size=memory_mb,
            reserved_concurrent_executions=reserved_concurrency,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
            log_group=self.log_group,
            role=role,
            layers=layers or None,
            environment=environment,
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
            Annotations.of(Stack.of(self)).add_warning_v2(
                "once:no-bytecode",
                f"every cold start compiles all that the function imports: there is no {python} "
                f"here to compile it beforehand; put {python} on the PATH, or leave "
                "python_runtime out",
            )
        version = function.current_version
        # SnapStart initializes the version, which reads its settings, before the alias moves.
        version.node.add_dependency(*reads)
        self.alias = lambda_.Alias(self, "Live", alias_name=LIVE_ALIAS, version=version)
        # With the policies that an app has added to the role.
        self.alias.node.add_dependency(role, *after)

    def _leave_to_other_tool(
        self,
        props: ConsumerProps | CommandProps,
        policy: iam.ManagedPolicy,
        settings: Environment,
        variables: Mapping[str, str] = {},
        **demands: object,
    ) -> None:
        """Fill the contract of a function; `demands` are those beside the function itself.

        Raises:
            SynthError: an output's key or the policy is not possible.
        """
        self.function = lambda_.Function.from_function_name(self, "Function", self.full_name)
        text, stored = self._write_settings(settings, variables)
        if stored is not None:
            policy.add_statements(stored.right)
        faults = []
        if output_key(props.name).startswith((StackOutput.FUNCTION, StackOutput.TABLE)):
            faults = ["its outputs would be read as those of a function or table; rename it"]
        if (size := policy_characters(self, policy.document.to_json())) > POLICY_CHARACTERS:
            faults.append(
                f"its policy has up to {size} characters, and IAM takes {POLICY_CHARACTERS} in a "
                "managed policy; give it fewer tables, secrets or workflows, or deploy it with the "
                "CDK, whose policy is a part of its role"
            )
        if faults:
            raise SynthError(f"{named(props)} cannot be built", faults)
        demands |= {
            "Function": {
                "Runtime": self.config.runtime.name,
                "Architectures": [lambda_.Architecture.ARM_64.name],
                "Handler": f"functions.{props.name}.handler.lambda_handler",
                "Timeout": props.timeout_seconds,
                "MemorySize": props.memory_mb,
            },
            "ReservedConcurrentExecutions": props.reserved_concurrency,
            "Variables": list(variables),
        }
        self.contract |= {
            ExternalOutput.SETTINGS: text,
            ExternalOutput.POLICY: policy.managed_policy_arn,
            ExternalOutput.DEMANDS: json.dumps(demands),
            **{
                f"{ExternalOutput.VARIABLE}{output_key(name.lower())}": value
                for name, value in variables.items()
            },
        }

    def _code(self, packaged: Path) -> lambda_.Code:
        if not self.config.external_functions:
            return lambda_.Code.from_asset(str(packaged), exclude=bytecode_excludes(self.config))
        # A path, which another tool uploads, and the name by content, for which there is a version.
        return lambda_.Code.from_inline(f"{PACKAGES}/{self.node.id}.zip {packaged.name}")

    def _write_settings(
        self, settings: Environment, others: Mapping[str, str]
    ) -> tuple[str, StoredSettings | None]:
        """Return the value of `ONCE_SETTINGS` beside other variables.

        If Lambda would refuse it for its size, it is the path of a parameter, and comes with it.
        """
        text = settings.to_env()[SETTINGS]
        rest = sum(len(f"{name}{value}".encode()) for name, value in others.items())
        size = len(text.encode()) + _NAME_BYTES * text.count("${Token[")
        if size + rest + len(SETTINGS) <= Limits.ENVIRONMENT_BYTES:
            return text, None
        if size > Limits.PARAMETER_BYTES:
            fault = (
                f"its settings have up to {size} bytes, and Parameter Store takes "
                f"{Limits.PARAMETER_BYTES}; give it fewer or shorter event types, or divide them "
                "between two functions"
            )
            raise SynthError(f"the function {self.full_name!r} cannot be built", [fault])
        # Named by its content: an older version of the function keeps its own settings.
        content = json.dumps(Stack.of(self).resolve(text))
        path = f"/{self.full_name}/settings-{sha256(content.encode()).hexdigest()[:16]}"
        tier = ssm.ParameterTier.ADVANCED
        made = ssm.StringParameter(
            self, "Settings", parameter_name=path, string_value=text, tier=tier
        )
        if self.config.external_functions:
            # The other tool deploys later: until then the function reads the earlier parameter.
            made.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        # Of every content: an older version still starts while and after the policy changes.
        name = f"{self.full_name}/settings-*"
        arn = Stack.of(self).format_arn(service="ssm", resource="parameter", resource_name=name)
        return path, StoredSettings(made, allow("ReadSettings", ["ssm:GetParameter"], arn))

    def _shift_gradually(self, rollout: Rollout, alarms: Sequence[cloudwatch.IAlarm]) -> None:
        """Let CodeDeploy move the alias, and move it back if one of the alarms fires meanwhile.

        Without effect for `Rollout.ALL_AT_ONCE`, with which CloudFormation moves the alias itself.
        """
        if rollout is Rollout.ALL_AT_ONCE:
            return
        group = codedeploy.LambdaDeploymentGroup(
            self,
            "Rollout",
            alias=self.alias,
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
