"""Address of a webhook ingress: a function URL, or an HTTP API."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from once.cdk.customer_keys import imported_key
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.nag import acknowledge_finding

REQUESTS_A_SECOND = 500
"""Throttle of the HTTP API, which answers 429 above it: providers send such webhooks again."""
_LOGGED = ("requestId", "requestTime", "routeKey", "status", "sourceIp", "responseLength")
_PLACES = {"sourceIp": "identity.sourceIp"}
_SIGNED = "Providers sign their requests, and only the function can check a signature."


def function_url(alias: lambda_.Alias) -> str:
    """Return the URL of a published version, open to everybody."""
    url = alias.add_function_url(auth_type=lambda_.FunctionUrlAuthType.NONE)
    return url.url


def http_api(scope: Construct, name: str, alias: lambda_.Alias, config: DeploymentConfig) -> str:
    """Return the URL of an HTTP API with payload format 2.0, a throttle and an access log."""
    api = apigateway.HttpApi(
        scope,
        "Api",
        api_name=name,
        create_default_stage=False,
        default_integration=HttpLambdaIntegration("Function", alias),
    )
    stage = apigateway.HttpStage(
        scope,
        "Stage",
        http_api=api,
        auto_deploy=True,
        throttle=apigateway.ThrottleSettings(
            rate_limit=REQUESTS_A_SECOND, burst_limit=REQUESTS_A_SECOND
        ),
    )
    _log_access(scope, name, stage, config)
    acknowledge_finding(api, "AwsSolutions-APIG4", _SIGNED)
    return stage.url


def _log_access(
    scope: Construct, name: str, stage: apigateway.HttpStage, config: DeploymentConfig
) -> None:
    group = logs.LogGroup(
        scope,
        "AccessLog",
        log_group_name=f"/aws/apigateway/{name}",
        encryption_key=imported_key(scope, config.keys.logs),
        retention=logs.RetentionDays.ONE_MONTH,
        removal_policy=RemovalPolicy.DESTROY,
    )
    fields = ",".join(f'"{each}":"$context.{_PLACES.get(each, each)}"' for each in _LOGGED)
    made = stage.node.default_child
    assert isinstance(made, apigateway.CfnStage)  # noqa: S101
    made.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
        destination_arn=group.log_group_arn, format=f"{{{fields}}}"
    )
