"""HTTP API in front of a function: routes, authorizer, throttle and access log."""

from collections.abc import Iterable
from typing import Any, cast

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_logs as logs
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration

from once.cdk._lambda_function import FunctionConstruct
from once.cdk.deployment_options import imported_key
from once.cdk.nag import acknowledge_finding
from once.cdk.props import Auth

ANY_REQUEST = "$default"
"""The route of every request that has no route of its own."""
_LOGGED = {
    "requestId": "requestId",
    "requestTime": "requestTime",
    "routeKey": "routeKey",
    "status": "status",
    "sourceIp": "identity.sourceIp",
    "responseLength": "responseLength",
}
"""The fields of the access log, and their variables."""


def make_api(owner: FunctionConstruct, requests_a_second: int) -> tuple[apigateway.HttpApi, str]:
    """Make an HTTP API in front of a function, with a throttle above which it answers 429.

    Returns:
        The API, to which `add_routes` adds its routes, and its address with a slash at its end.
    """
    api = apigateway.HttpApi(owner, "Api", api_name=owner.full_name, create_default_stage=False)
    stage = apigateway.HttpStage(
        owner,
        "Stage",
        http_api=api,
        auto_deploy=True,
        throttle=apigateway.ThrottleSettings(
            rate_limit=requests_a_second, burst_limit=requests_a_second
        ),
    )
    group = logs.LogGroup(
        owner,
        "AccessLog",
        # A group with another prefix is added to a policy of the account, which has a limit.
        log_group_name=f"/aws/vendedlogs/apis/{owner.full_name}",
        encryption_key=imported_key(owner, owner.config.keys.logs),
        retention=logs.RetentionDays.ONE_MONTH,
        removal_policy=RemovalPolicy.DESTROY,
    )
    fields = ",".join(f'"{name}":"$context.{value}"' for name, value in _LOGGED.items())
    made = cast(apigateway.CfnStage, stage.node.default_child)
    made.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
        # API Gateway stores it without the `:*` of `log_group_arn`: drift would report that.
        destination_arn=Stack.of(owner).format_arn(
            service="logs",
            resource="log-group",
            resource_name=group.log_group_name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        ),
        format=f"{{{fields}}}",
    )
    # The stage's own address is put together from the region, and is wrong on the embedded AWS.
    return api, f"{api.api_endpoint}/"


def add_routes(
    owner: FunctionConstruct, api: apigateway.IHttpApi, routes: Iterable[str], auth: Auth
) -> None:
    """Let an API send requests to the alias of a function, in payload format 2.0.

    Args:
        owner: the construct of the function.
        api: the API.
        routes: methods and paths, such as `POST /orders`, or `ANY_REQUEST`.
        auth: the authentication of the callers.
    """
    integration = HttpLambdaIntegration("Function", owner.alias)
    authorizer: Any = None
    if auth.kind == "jwt":
        name, audience = f"{owner.node.id}-jwt", list(auth.audience)
        authorizer = authorizers.HttpJwtAuthorizer(name, auth.issuer, jwt_audience=audience)
    elif auth.kind == "iam":
        authorizer = authorizers.HttpIamAuthorizer()
    for route in routes:
        key = apigateway.HttpRouteKey.DEFAULT
        if route != ANY_REQUEST:
            method, path = route.split()
            key = apigateway.HttpRouteKey.with_(path, apigateway.HttpMethod[method])
        made = apigateway.HttpRoute(
            owner,
            route.replace("{", "by-").replace(" /", "-").replace("/", "-"),
            http_api=api,
            route_key=key,
            integration=integration,
            authorizer=authorizer,
        )
        if auth.kind == "public":
            acknowledge_finding(made, "AwsSolutions-APIG4", "The function's line says `public`.")
