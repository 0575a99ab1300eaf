"""Functions with commands: the shop's with an IAM authorizer, and one with a JWT of an issuer."""

import json

from once.names import Metric, StackOutput
from once.settings import CommandSettings, TableSettings
from stacks.consumers import COMMANDS
from tests.stacks.cloud import Cloud, environment, flat
from tests.stacks.full_service import DESK, ISSUER, Stacks
from tests.stacks.test_alarms import on_function, simple_alarms
from tests.stacks.test_webhooks import only

[CHECKOUT] = COMMANDS
NAME = CHECKOUT.name
FIVE_FAILURES = (Metric.COMMANDS_FAILED, "Sum", 15 * 60, 5, f"once-{NAME}")


def test_settings_go_back_through_the_environment(either_cloud: Cloud) -> None:
    found = CommandSettings.from_env(environment(either_cloud, NAME))
    assert found == CommandSettings(
        consumer=NAME,
        dedup_table=found.dedup_table,
        tables={"orders": TableSettings(found.tables["orders"].name, ("order_id",))},
        dedup_window_seconds=45 * 24 * 3600,
        publishes=CHECKOUT.publishes,
        commands=("place-order",),
        time_margin_ms=1000 if either_cloud.local else 5000,
    )
    # The caller gets an answer before the API gives up, also after the last attempt to commit.
    assert found.answer_seconds < either_cloud.of(NAME, "Function")["Timeout"] <= 30


def test_a_caller_of_the_shop_signs_its_requests(either_cloud: Cloud) -> None:
    [route] = either_cloud.every("AWS::ApiGatewayV2::Route").values()
    assert (route["RouteKey"], route["AuthorizationType"]) == ("POST /orders", "AWS_IAM")
    url = either_cloud.service["Outputs"][f"{StackOutput.COMMANDS_URL}Checkout"]["Value"]
    assert flat(url) == f"{either_cloud.text(NAME, 'Api', attribute='ApiEndpoint')}/"
    names = either_cloud.service["Outputs"][f"{StackOutput.COMMANDS}Checkout"]["Value"]
    assert names == "place-order"


def test_the_alias_moves_after_the_relay_knows_the_types(cloud: Cloud) -> None:
    assert cloud.id_of("outbox_relay", "Live") in cloud.resource(NAME, "Live")["DependsOn"]


def test_two_alarms_and_a_graph_of_the_dashboard(cloud: Cloud) -> None:
    own = {"CommandsAlarm": FIVE_FAILURES, **on_function(cloud, NAME)}
    assert simple_alarms(cloud, NAME) == own
    [dashboard] = cloud.every("AWS::CloudWatch::Dashboard").values()
    assert f"{NAME}: outcomes" in json.dumps(dashboard)


def test_every_route_verifies_a_token_of_the_issuer(stacks: Stacks) -> None:
    authorizer = only(stacks, "AWS::ApiGatewayV2::Authorizer")
    assert authorizer["JwtConfiguration"] == {"Audience": ["box-office", "app"], "Issuer": ISSUER}
    assert authorizer["IdentitySource"] == ["$request.header.Authorization"]
    routes = [
        each
        for key, each in stacks.every("AWS::ApiGatewayV2::Route", "test").items()
        if key.startswith(DESK.name)
    ]
    assert {each["RouteKey"] for each in routes} == DESK.routes.keys()
    assert {each["AuthorizationType"] for each in routes} == {"JWT"}
    stage = only(stacks, "AWS::ApiGatewayV2::Stage", DESK.name)
    throttle = {"ThrottlingBurstLimit": 40, "ThrottlingRateLimit": 40}
    assert stage["DefaultRouteSettings"] == throttle
    assert '"status":"$context.status"' in stage["AccessLogSettings"]["Format"]


def test_the_function_has_what_the_line_declares(stacks: Stacks) -> None:
    function = only(stacks, "AWS::Lambda::Function", DESK.name)
    assert function["ReservedConcurrentExecutions"] == 20
    assert function["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    variables = {n: flat(v) for n, v in function["Environment"]["Variables"].items()}
    settings = CommandSettings.from_env(variables)
    assert settings.commands == ("close-hall", "leave-seat", "take-seat")
    # Group and order of its types, as its consumers declare them.
    assert settings.groups == {"seat.taken": "show.id"}
    assert settings.ordered_types == ("seat.taken",)
