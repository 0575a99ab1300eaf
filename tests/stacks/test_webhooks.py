"""The webhook ingress of the shop: address, function, rights and alarms."""

from once.cdk.props import DAY_SECONDS
from once.names import Metric
from once.settings import TableSettings
from once.webhooks.endpoint import CAPTURES, WebhookSettings
from stacks.webhooks import WEBHOOKS
from tests.stacks.cloud import STATE, Cloud, Json, environment
from tests.stacks.test_alarms import on_function, simple_alarms
from tests.stacks.test_permissions import IN_TRANSACTIONS_ONLY, Right, log_and_trace, rights

NAME = WEBHOOKS.name
SECRET = "secret-endpoint-stripe"
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


def test_no_concurrency_is_reserved_by_default(cloud: Cloud, local_cloud: Cloud) -> None:
    reserved = "ReservedConcurrentExecutions"
    assert reserved not in cloud.of(NAME, "Function")  # a new account has too little
    assert reserved not in local_cloud.of(NAME, "Function")


def test_settings_go_back_through_the_environment(either_cloud: Cloud) -> None:
    variables = environment(either_cloud, NAME)
    found = WebhookSettings.from_env(variables)
    assert found == WebhookSettings(
        consumer=NAME,
        dedup_table=found.dedup_table,
        tables={CAPTURES: TableSettings(found.tables[CAPTURES].name, ("pk",))},
        dedup_window_seconds=45 * DAY_SECONDS,
        publishes=("stripe.charge.refunded",),
        time_margin_ms=1000 if either_cloud.local else 5000,
        endpoints=WEBHOOKS.endpoints,
        secrets=found.secrets,
        capture_seconds=30 * DAY_SECONDS,
    )
    assert either_cloud.id_of(STATE, "dedup-records") in found.dedup_table
    assert either_cloud.id_of(STATE, CAPTURES) in found.tables[CAPTURES].name
    assert either_cloud.id_of(STATE, SECRET) in found.secrets["stripe"]


def test_the_ingress_has_these_rights_only(either_cloud: Cloud) -> None:
    dedup = {either_cloud.text(STATE, "dedup-records", attribute="Arn")}
    captures = {either_cloud.text(STATE, CAPTURES, attribute="Arn")}
    secret = {either_cloud.text(STATE, SECRET, attribute="Id")}
    own: Json = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["webhooks#*"]}}
    if not either_cloud.local:  # the embedded AWS does not know the key
        own["Null"] = {"dynamodb:LeadingKeys": "false"}
    put = {"dynamodb:PutItem"}
    assert rights(either_cloud, NAME) == {
        "WriteOwnRecordsInTransactions": Right(put, dedup, IN_TRANSACTIONS_ONLY | own),
        "ReadOwnRecords": Right({"dynamodb:BatchGetItem"}, dedup, own),
        "CaptureInTransactions": Right(put, captures, IN_TRANSACTIONS_ONLY),
        "ReadSecrets": Right({"secretsmanager:GetSecretValue"}, secret),
        **log_and_trace(either_cloud, NAME),
    }


def test_alarms_of_the_ingress(cloud: Cloud) -> None:
    quarter, service = HOUR // 4, f"once-{NAME}"
    assert simple_alarms(cloud, NAME) == {
        "FailedAlarm": (Metric.WEBHOOKS_FAILED, "Sum", quarter, 3, service),
        "ConflictsAlarm": (Metric.WEBHOOK_CONFLICTS, "Sum", quarter, 1, service),
        "UnreadableAlarm": (Metric.WEBHOOKS_UNREADABLE, "Sum", quarter, 1, service),
        "UnpublishableAlarm": (Metric.WEBHOOKS_UNPUBLISHABLE, "Sum", quarter, 1, service),
        "TooLargeAlarm": (Metric.WEBHOOKS_TOO_LARGE, "Sum", quarter, 1, service),
        "ForgedAlarm": (Metric.WEBHOOKS_FORGED, "Sum", HOUR, 10, service),
        "StaleAlarm": (Metric.WEBHOOKS_STALE, "Sum", HOUR, 10, service),
        **on_function(cloud, NAME),
    }
