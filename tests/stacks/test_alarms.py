"""Alarms, the topic that they notify, and the dashboard."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from once.cdk.props import ConsumerProps
from once.names import RELAY, UNROUTED, Metric, page_url
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import STATE, Cloud, Json, flat, listed, name_of

HOUR = 60 * 60
DAY = 24 * HOUR
HIDDEN = "ApproximateNumberOfMessagesNotVisible"
SENT = "NumberOfMessagesSent"
VISIBLE, AGE = "ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"

DESCRIPTION = re.compile(rf"once-[a-z_-]+: [^.]+\. {re.escape(page_url('runbook'))}#[a-z-]+")

Alarm = tuple[str, str, int, int, str]
"""Metric, statistic, period, threshold, and the one value of the dimension."""


def metrics_of(alarm: Json) -> Iterator[Json]:
    """Yield what an alarm measures, as namespace, name and dimensions."""
    if "MetricName" in alarm:
        yield alarm
    yield from (q["MetricStat"]["Metric"] for q in alarm.get("Metrics", []) if "MetricStat" in q)


def watched(metric: Json) -> str:
    (dimension,) = metric["Dimensions"]
    return flat(dimension["Value"])


@pytest.fixture(scope="module")
def alarms(cloud: Cloud) -> list[Json]:
    return list(cloud.every("AWS::CloudWatch::Alarm").values())


def simple_alarms(cloud: Cloud, owner: str | None) -> dict[str, Alarm]:
    """Return an owner's alarms on one metric, by the names of their constructs."""
    found = {}
    for resource in cloud.service["Resources"].values():
        _, *owners, name, _ = resource["Metadata"]["aws:cdk:path"].split("/")
        alarm = resource["Properties"] if resource["Type"] == "AWS::CloudWatch::Alarm" else {}
        if owners == ([owner] if owner else []) and "MetricName" in alarm:
            figures = (alarm[key] for key in ("MetricName", "Statistic", "Period", "Threshold"))
            found[name] = (*figures, watched(alarm))
    return found


def on_function(cloud: Cloud, owner: str) -> dict[str, Alarm]:
    function = cloud.text(owner, "Function")
    return {
        "ErrorsAlarm": ("Errors", "Sum", HOUR // 4, 3, function),
        "ThrottlesAlarm": ("Throttles", "Sum", HOUR // 4, 5, function),
    }


def test_alarms_of_a_consumer(cloud: Cloud, consumer: ConsumerProps) -> None:
    name, service = consumer.name, f"once-{consumer.name}"

    def queue(part: str) -> str:
        return cloud.text(consumer, part, attribute="QueueName")

    expected = {
        "NewLettersAlarm": (SENT, "Sum", 300, 1, queue("DeadLetters")),
        "AgeAlarm": (AGE, "Maximum", 60, 2 * DAY, queue("Queue")),
        "BreakerAlarm": (Metric.BREAKER_OPEN, "Sum", 300, 1, service),
        **on_function(cloud, name),
    }
    if consumer.batch_size > 1:
        expected["IsolationAgeAlarm"] = (AGE, "Maximum", 60, 2 * DAY, queue("Isolation"))
    if consumer.effect_timeout_seconds:
        expected["PendingAlarm"] = (Metric.PENDING_SECONDS, "Maximum", 300, HOUR, service)
        expected["UnknownAlarm"] = (Metric.EFFECTS_UNKNOWN, "Sum", 300, 1, service)
    assert simple_alarms(cloud, name) == expected


def alarm_on_messages(cloud: Cloud, owner: str | ConsumerProps, name: str) -> object:
    """Return an alarm's expression and threshold, and each metric by its name in it."""
    alarm = cloud.of(owner, name)
    (expression,) = (q["Expression"] for q in alarm["Metrics"] if "Expression" in q)
    metrics = {q["Id"]: q["MetricStat"] for q in alarm["Metrics"] if "MetricStat" in q}
    named = {
        name: (one["Metric"]["MetricName"], one["Stat"], one["Period"], watched(one["Metric"]))
        for name, one in metrics.items()
    }
    return expression, alarm["Threshold"], named


def on_messages(queue: str, period: int = 60) -> object:
    common = ("Maximum", period, queue)
    return (
        "visible + hidden",
        1,
        {"visible": (VISIBLE, *common), "hidden": (HIDDEN, *common)},
    )


def test_an_operator_who_looks_at_dead_letters_does_not_end_their_alarm(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    for owner in (consumer, RELAY):
        queue = cloud.text(owner, "DeadLetters", attribute="QueueName")
        assert alarm_on_messages(cloud, owner, "DeadLettersAlarm") == on_messages(queue)


@pytest.mark.parametrize("owner", [*CONSUMERS, RELAY, UNROUTED], ids=name_of)
def test_messages_dead_for_four_days_alarm_however_often_they_are_read(
    cloud: Cloud, owner: str | ConsumerProps
) -> None:
    part = "Queue" if owner == UNROUTED else "DeadLetters"
    queue = cloud.text(owner, part, attribute="QueueName")
    alarm = cloud.of(owner, "OldLettersAlarm")
    assert alarm_on_messages(cloud, owner, "OldLettersAlarm") == on_messages(queue, HOUR)
    assert alarm["EvaluationPeriods"] * HOUR == 4 * DAY
    # SQS counts the age of a message that it moved from its first queue: 8 days at most.
    assert cloud.of(owner, part)["MessageRetentionPeriod"] > (8 + 4 + 1) * DAY


def test_alarms_of_the_relay(cloud: Cloud) -> None:
    failed = "OnFailureDestinationDeliveredEventCount"
    letters = cloud.text(RELAY, "DeadLetters", attribute="QueueName")
    assert simple_alarms(cloud, RELAY) == {
        "NewLettersAlarm": (SENT, "Sum", 300, 1, letters),
        "AgeAlarm": ("IteratorAge", "Maximum", 60, HOUR * 1000, cloud.text(RELAY, "Function")),
        "FailuresAlarm": (failed, "Sum", 60, 1, cloud.text(RELAY, "Mapping")),
    }


def test_s3_the_first_unrouted_event_alarms(cloud: Cloud) -> None:
    sweep = cloud.text(UNROUTED, "Sweep", attribute="QueueName")
    assert alarm_on_messages(cloud, UNROUTED, "UnroutedAlarm") == on_messages(
        cloud.text(UNROUTED, "Queue", attribute="QueueName")
    )
    unrouted = cloud.text(UNROUTED, "Queue", attribute="QueueName")
    assert simple_alarms(cloud, UNROUTED) == {
        "NewLettersAlarm": (SENT, "Sum", 300, 1, unrouted),
        "AgeAlarm": (AGE, "Maximum", 60, 2 * DAY, sweep),
        **on_function(cloud, UNROUTED),
    }


def test_alarms_of_the_dedup_table(cloud: Cloud) -> None:
    (dimension,) = cloud.of("DedupReadsAlarm")["Dimensions"]
    assert cloud.exported(dimension["Value"]) == cloud.text(STATE, "dedup-records")
    common = ("Sum", HOUR // 4, 100, flat(dimension["Value"]))
    assert simple_alarms(cloud, None) == {
        "DedupReadsAlarm": ("ReadThrottleEvents", *common),
        "DedupWritesAlarm": ("WriteThrottleEvents", *common),
        "DedupConflictsAlarm": ("TransactionConflict", *common),
    }


def test_an_alarm_needs_one_figure_names_its_runbook_entry_and_notifies_of_begin_and_end(
    cloud: Cloud, alarms: list[Json]
) -> None:
    for alarm in alarms:
        assert alarm["TreatMissingData"] == "notBreaching"
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        lasting = ("#old-dead-letters", "#messages-not-handed-over")
        assert (alarm["EvaluationPeriods"] > 1) == alarm["AlarmDescription"].endswith(lasting)
        assert DESCRIPTION.fullmatch(alarm["AlarmDescription"])
        assert alarm["AlarmActions"] == alarm["OKActions"] == [cloud.ref("Alarms")]


def test_functions_emit_metrics_under_the_name_that_alarms_watch(
    cloud: Cloud, alarms: list[Json]
) -> None:
    functions = cloud.every("AWS::Lambda::Function").values()
    emitted = {f["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] for f in functions}
    metrics: Any = (metric for alarm in alarms for metric in metrics_of(alarm))
    asked = {watched(metric) for metric in metrics if metric["Namespace"] == Metric.NAMESPACE}
    assert asked == emitted - {f"once-{RELAY}", f"once-{UNROUTED}"}


def percent(alarm: Json, period: int = HOUR // 4, **figures: int) -> float | None:
    """Evaluate an alarm's expression as CloudWatch does; None if a figure is missing."""
    (expression,) = (q["Expression"] for q in alarm["Metrics"] if "Expression" in q)
    queries = [query for query in alarm["Metrics"] if "MetricStat" in query]
    for query in queries:
        assert (query["MetricStat"]["Stat"], query["MetricStat"]["Period"]) == ("Sum", period)
    functions = {
        "IF": lambda condition, then, otherwise: then if condition else otherwise,
        "FILL": lambda value, filling: filling if value is None else value,
    }
    values = {q["Id"]: figures.get(q["MetricStat"]["Metric"]["MetricName"]) for q in queries}
    try:
        return float(eval(expression, functions, values))
    except (TypeError, ZeroDivisionError):  # a missing figure that the expression does not fill
        return None


DONE = {"Committed", "Refused"}
DUPLICATES = {"DuplicatesResent", "DuplicatesRedelivered", "DuplicatesRedriven"}


@pytest.mark.parametrize(
    ("name", "metric", "total"),
    [
        ("ConflictsAlarm", "Conflicts", DONE | {"Conflicts"}),
        ("ResentAlarm", "DuplicatesResent", DONE | DUPLICATES),
        ("RedeliveredAlarm", "DuplicatesRedelivered", DONE | DUPLICATES),
    ],
)
def test_a_fifth_of_conflicts_or_of_duplicates_alarms(
    cloud: Cloud, consumer: ConsumerProps, name: str, metric: str, total: set[str]
) -> None:
    alarm, others = cloud.of(consumer, name), total - {metric}
    assert alarm["Threshold"] == 20
    assert {watched(one) for one in metrics_of(alarm)} == {f"once-{consumer.name}"}
    assert {one["MetricName"] for one in metrics_of(alarm)} == total
    assert percent(alarm, **{metric: 100}) == 100
    for other in others:
        assert percent(alarm, **{metric: 100, other: 400}) == 20
    assert percent(alarm, **dict.fromkeys(total, 100)) == 100 / len(total)
    assert percent(alarm, **{metric: 99}) == 0  # fewer than 100 can be chance
    assert percent(alarm, **dict.fromkeys(others, 400)) is None  # missing data


@pytest.mark.parametrize(
    ("figures", "value"),
    [
        ({"PolledEventCount": 3}, 3),
        ({"PolledEventCount": 3, "InvokedEventCount": 0}, 3),
        ({"PolledEventCount": 3, "InvokedEventCount": 1}, 0),
        ({"InvokedEventCount": 1}, 0),
        ({}, None),
    ],
)
def test_messages_that_are_received_and_never_handed_over_alarm(
    cloud: Cloud, consumer: ConsumerProps, figures: dict[str, int], value: float | None
) -> None:
    alarm = cloud.of(consumer, "HandOverAlarm")
    assert (alarm["Threshold"], alarm["EvaluationPeriods"]) == (1, 2)
    assert {watched(one) for one in metrics_of(alarm)} == {cloud.text(consumer, "Mapping")}
    assert percent(alarm, 300, **figures) == value


def allowed_to_cloudwatch(policy: Json) -> Json:
    (found,) = (
        statement
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow"
        and {"Service": "cloudwatch.amazonaws.com"} in listed(statement["Principal"])
    )
    return dict(found)


def test_cloudwatch_may_publish_to_the_topic_and_use_its_key(cloud: Cloud) -> None:
    # Without both, CloudWatch drops the notification without an error.
    assert cloud.of("Alarms")["KmsMasterKeyId"] == cloud.arn("AlarmKey")
    publish = allowed_to_cloudwatch(cloud.of("Alarms", "Policy")["PolicyDocument"])
    assert publish["Action"] == "sns:Publish"
    assert flat(publish["Condition"]["ArnLike"]["aws:SourceArn"]) == (
        "arn:<AWS::Partition>:cloudwatch:<AWS::Region>:<AWS::AccountId>:alarm:*"
    )
    use = allowed_to_cloudwatch(cloud.of("AlarmKey")["KeyPolicy"])
    assert use["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]
