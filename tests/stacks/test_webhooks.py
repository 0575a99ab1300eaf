"""Webhook ingress: the shop's with a function URL, and one with an HTTP API and large bodies."""

from once.cdk.props import DAY_SECONDS
from once.names import Metric
from once.settings import TableSettings
from once.webhooks.endpoint import CAPTURES, WebhookSettings
from stacks.webhooks import WEBHOOKS
from tests.stacks.cloud import STATE, Cloud, Json, environment, flat, listed
from tests.stacks.full_service import ENDPOINTS, Stacks
from tests.stacks.test_alarms import on_function, simple_alarms

NAME = WEBHOOKS.name
SECRET = "stripe-endpoint-secret"
HOUR = 60 * 60


def test_everybody_may_call_the_url_and_nothing_else(either_cloud: Cloud) -> None:
    (url,) = either_cloud.every("AWS::Lambda::Url").values()
    assert (url["AuthType"], url["Qualifier"]) == ("NONE", "live")
    assert url["TargetFunctionArn"] == either_cloud.arn(NAME, "Function")
    permissions = [
        each
        for each in either_cloud.every("AWS::Lambda::Permission").values()
        if each["Principal"] == "*"
    ]
    alias = either_cloud.ref(NAME, "Live")
    assert sorted(permissions, key=lambda each: str(each["Action"])) == [
        {
            "Action": "lambda:InvokeFunction",
            "FunctionName": alias,
            "InvokedViaFunctionUrl": True,
            "Principal": "*",
        },
        {
            "Action": "lambda:InvokeFunctionUrl",
            "FunctionName": alias,
            "FunctionUrlAuthType": "NONE",
            "Principal": "*",
        },
    ]


def test_the_alias_moves_after_the_relay_knows_the_types(cloud: Cloud) -> None:
    assert cloud.id_of("outbox_relay", "Live") in cloud.resource(NAME, "Live")["DependsOn"]


def test_settings_go_back_through_the_environment(either_cloud: Cloud) -> None:
    variables = environment(either_cloud, NAME)
    found = WebhookSettings.from_env(variables)
    assert found == WebhookSettings(
        consumer=NAME,
        dedup_table=found.dedup_table,
        tables={CAPTURES: TableSettings(found.tables[CAPTURES].name, ("pk",))},
        dedup_window_seconds=45 * DAY_SECONDS,
        publishes=("stripe.charge.refunded", "stripe.payment_intent.succeeded"),
        time_margin_ms=1000 if either_cloud.local else 5000,
        endpoints=WEBHOOKS.endpoints,
        secrets=found.secrets,
        capture_seconds=30 * DAY_SECONDS,
    )
    assert either_cloud.id_of(STATE, "dedup-records") in found.dedup_table
    assert either_cloud.id_of(STATE, CAPTURES) in found.tables[CAPTURES].name
    assert either_cloud.id_of(STATE, SECRET) in found.secrets["stripe"]


def test_alarms_of_the_ingress(cloud: Cloud) -> None:
    service = f"once-{NAME}"
    assert simple_alarms(cloud, NAME) == {
        "WebhooksAlarm": (Metric.WEBHOOKS_NOT_HANDED_ON, "Sum", HOUR // 4, 1, service),
        "RejectedAlarm": (Metric.WEBHOOKS_REJECTED, "Sum", HOUR, 10, service),
        **on_function(cloud, NAME),
    }


def only(stacks: Stacks, kind: str, start: str = "") -> Json:
    """Return the one resource of a type whose logical id begins with a text."""
    found: Json
    [found] = [each for key, each in stacks.every(kind, "test").items() if key.startswith(start)]
    return found


def test_large_bodies_and_ordered_types_are_declared_to_the_function(stacks: Stacks) -> None:
    variables = only(stacks, "AWS::Lambda::Function", "webhooks")["Environment"]["Variables"]
    settings = WebhookSettings.from_env({name: flat(value) for name, value in variables.items()})
    # Group and order of its types, as its consumers declare them.
    assert settings.groups == {"github.push": "show.id"}
    assert settings.ordered_types == ("github.push",)
    assert settings.max_body_bytes == ENDPOINTS[0].profile.body_bytes
    assert settings.claim_bucket
    [policy] = only(stacks, "AWS::IAM::Role", "webhooks")["Policies"]
    [stores] = [s for s in policy["PolicyDocument"]["Statement"] if s["Sid"] == "StoreClaims"]
    patterns = sorted(flat(arn).partition("/")[2] for arn in listed(stores["Resource"]))
    assert (stores["Action"], patterns) == ("s3:PutObject", ["consumers/webhooks/*", "webhooks/*"])
    rules = only(stacks, "AWS::S3::Bucket", "claims")["LifecycleConfiguration"]["Rules"]
    kept = {rule.get("Prefix", ""): rule["ExpirationInDays"] for rule in rules}
    assert kept == {"": 90, "webhooks/": 30}


def test_the_http_api_takes_any_path_with_a_throttle_and_a_log(stacks: Stacks) -> None:
    assert only(stacks, "AWS::ApiGatewayV2::Route", "webhooks")["RouteKey"] == "$default"
    assert (
        only(stacks, "AWS::ApiGatewayV2::Integration", "webhooks")["PayloadFormatVersion"] == "2.0"
    )
    stage = only(stacks, "AWS::ApiGatewayV2::Stage", "webhooks")
    assert (stage["StageName"], stage["AutoDeploy"]) == ("$default", True)
    throttle = {"ThrottlingBurstLimit": 500, "ThrottlingRateLimit": 500}
    assert stage["DefaultRouteSettings"] == throttle
    [(group, log)] = [
        (key, each)
        for key, each in stacks.every("AWS::Logs::LogGroup", "test").items()
        if key == "webhooksAccessLog"
    ]
    assert log["LogGroupName"].startswith("/aws/vendedlogs/")
    assert flat(stage["AccessLogSettings"]["DestinationArn"]).endswith(f":log-group:<{group}>")
    form = stage["AccessLogSettings"]["Format"]
    assert '"status":"$context.status"' in form
    assert "querystring" not in form.lower()
    assert stacks.every("AWS::Lambda::Url", "test") == {}
