"""What the outbox relay is promised: its stream, its rights, and no loss in silence."""

import json

import pytest

from once.schema import RELAY
from once.settings import RelaySettings
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import (
    Cloud,
    Json,
    denies_plain_http,
    environment,
    flat,
    listed,
    statements,
)

HOUR = 60 * 60


@pytest.fixture
def mapping(cloud: Cloud) -> Json:
    return cloud.of(RELAY, "Mapping")


def stream_of(cloud: Cloud) -> str:
    return f"<{cloud.logical_id('once-state/dedup-records')}.StreamArn>"


def bucket_of(cloud: Cloud) -> str:
    return f"<{cloud.logical_id('once-state/relay-failures')}.Arn>"


def test_it_reads_the_dedup_tables_stream_from_its_beginning(cloud: Cloud, mapping: Json) -> None:
    assert cloud.exported(mapping["EventSourceArn"]) == stream_of(cloud)
    assert mapping["StartingPosition"] == "TRIM_HORIZON"


def test_it_gets_records_with_an_outbox_that_are_put_or_changed(mapping: Json) -> None:
    (selected,) = mapping["FilterCriteria"]["Filters"]
    assert json.loads(selected["Pattern"]) == {
        "eventName": ["INSERT", "MODIFY"],
        "dynamodb": {"NewImage": {"outbox": {"S": [{"exists": True}]}}},
    }


def test_a_poison_record_is_cornered_and_given_up(mapping: Json) -> None:
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["MaximumRetryAttempts"] == 100


def test_a_batch_is_given_up_well_before_the_stream_forgets_it(mapping: Json) -> None:
    assert mapping["MaximumRecordAgeInSeconds"] == 12 * HOUR


def test_what_was_given_up_is_kept_whole(cloud: Cloud, mapping: Json) -> None:
    destination = mapping["DestinationConfig"]["OnFailure"]["Destination"]
    assert cloud.exported(destination) == bucket_of(cloud)


def test_an_items_records_are_handled_in_order_a_hundred_at_a_time(mapping: Json) -> None:
    assert mapping["ParallelizationFactor"] == 1
    assert mapping["BatchSize"] == 100


def test_function_is_made_like_the_consumers(cloud: Cloud) -> None:
    function = cloud.of(RELAY, "Function")
    assert function["FunctionName"] == "once-outbox_relay"
    assert function["Handler"] == "functions.outbox_relay.handler.lambda_handler"
    assert function["Architectures"] == ["arm64"]
    assert cloud.of(RELAY, "Log")["RetentionInDays"] == 30


def test_settings_go_back_through_the_environment(cloud: Cloud) -> None:
    assert RelaySettings.from_env(environment(cloud, RELAY)) == RelaySettings(
        service="once",
        topic_arn=f"<{cloud.logical_id('once-service/Events')}>",
        dead_letter_url=f"<{cloud.logical_id('once-service/outbox_relay/DeadLetters')}>",
        publishes={line.name: line.publishes for line in CONSUMERS if line.publishes},
    )


def test_the_embedded_aws_gets_short_times(cloud: Cloud, local_cloud: Cloud) -> None:
    for each, timeout, margin in ((cloud, 60, 5000), (local_cloud, 10, 1000)):
        assert each.of(RELAY, "Function")["Timeout"] == timeout
        assert RelaySettings.from_env(environment(each, RELAY)).time_margin_ms == margin


def test_dead_letters_are_kept_as_a_consumers_are(cloud: Cloud) -> None:
    dead_letters = cloud.of(RELAY, "DeadLetters")
    assert dead_letters["QueueName"] == "once-outbox_relay-dead-letters"
    assert dead_letters["MessageRetentionPeriod"] == 14 * 24 * HOUR
    assert dead_letters["SqsManagedSseEnabled"] is True
    assert denies_plain_http(cloud.of(RELAY, "DeadLetters/Policy"))


def test_its_rights_are_these_and_no_table_is_among_them(cloud: Cloud) -> None:
    allowed = {s["Sid"]: (listed(s["Action"]), resources(cloud, s)) for s in rights(cloud)}
    assert allowed == {
        "ReadStream": (
            [
                *("dynamodb:GetRecords", "dynamodb:GetShardIterator"),
                *("dynamodb:DescribeStream", "dynamodb:ListStreams"),
            ],
            [stream_of(cloud)],
        ),
        "Publish": (["sns:Publish"], [f"<{cloud.logical_id('once-service/Events')}>"]),
        "Quarantine": (["sqs:SendMessage"], [flat(cloud.arn(RELAY, "DeadLetters"))]),
        "KeepFailures": (
            ["s3:PutObject", "s3:ListBucket"],
            [bucket_of(cloud), f"{bucket_of(cloud)}/*"],
        ),
        "Log": (
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            [flat(cloud.arn(RELAY, "Log"))],
        ),
        "Trace": (["xray:PutTraceSegments", "xray:PutTelemetryRecords"], ["*"]),
    }


def test_failures_are_kept_in_this_account_only(cloud: Cloud) -> None:
    conditions = {s["Sid"]: s.get("Condition") for s in rights(cloud)}
    ours = {"StringEquals": {"s3:ResourceAccount": {"Ref": "AWS::AccountId"}}}
    assert conditions.pop("KeepFailures") == ours
    assert set(conditions.values()) == {None}


def rights(cloud: Cloud) -> list[Json]:
    return statements(cloud, RELAY)


def resources(cloud: Cloud, statement: Json) -> list[str]:
    return [cloud.resolved(resource) for resource in listed(statement["Resource"])]


@pytest.mark.parametrize(
    ("alarm", "metric", "threshold"),
    [
        ("DeadLettersAlarm", "ApproximateNumberOfMessagesVisible", 1),
        ("AgeAlarm", "IteratorAge", HOUR * 1000),
        ("FailuresAlarm", "OnFailureDestinationDeliveredEventCount", 1),
    ],
)
def test_alarm_when_events_are_late_or_lie_about(
    cloud: Cloud, alarm: str, metric: str, threshold: int
) -> None:
    found = cloud.of(RELAY, alarm)
    assert (found["MetricName"], found["Threshold"]) == (metric, threshold)
    assert found["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"


def test_alarms_watch_the_relays_own_parts(cloud: Cloud, mapping: Json) -> None:
    watched = {
        alarm: flat(cloud.of(RELAY, alarm)["Dimensions"][0]["Value"])
        for alarm in ("DeadLettersAlarm", "AgeAlarm", "FailuresAlarm")
    }
    path = f"once-service/{RELAY}"
    assert watched == {
        "DeadLettersAlarm": f"<{cloud.logical_id(f'{path}/DeadLetters')}.QueueName>",
        "AgeAlarm": f"<{cloud.logical_id(f'{path}/Function')}>",
        "FailuresAlarm": f"<{cloud.logical_id(f'{path}/Mapping')}>",
    }
    assert mapping["MetricsConfig"] == {"Metrics": ["EventCount"]}  # or there is nothing to watch


def test_operator_finds_every_part_in_the_outputs(cloud: Cloud) -> None:
    path = f"once-service/{RELAY}"
    outputs = cloud.service["Outputs"]
    assert outputs["RelayFunction"]["Value"] == {"Ref": cloud.logical_id(f"{path}/Function")}
    assert outputs["RelayDeadLetters"]["Value"] == {"Ref": cloud.logical_id(f"{path}/DeadLetters")}


def test_no_output_takes_it_for_a_consumer(cloud: Cloud) -> None:
    assert "FunctionOutboxRelay" not in cloud.service["Outputs"]
