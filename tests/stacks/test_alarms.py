"""What is watched, and from when on it alarms."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from once.cdk.props import ConsumerProps
from once.schema import RELAY, UNROUTED, Metric
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, Json, flat

HOUR = 60 * 60
DAY = 24 * HOUR
MOMENT, WHILE = 5 * 60, 15 * 60

OURS = {value for name, value in vars(Metric).items() if name.isupper()} - {Metric.NAMESPACE}
DESCRIPTION = re.compile(r"once-[a-z_-]+: [^.]+\. docs/runbook\.md#[a-z-]+")


@pytest.fixture(scope="module")
def alarms(cloud: Cloud) -> dict[str, Json]:
    return cloud.every("AWS::CloudWatch::Alarm")


def metrics_of(alarm: Json) -> Iterator[Json]:
    """Yield what an alarm measures, as namespace, name and dimensions."""
    if "MetricName" in alarm:
        yield alarm
    yield from (q["MetricStat"]["Metric"] for q in alarm.get("Metrics", []) if "MetricStat" in q)


def plain(alarm: Json) -> tuple[Any, ...]:
    return tuple(alarm[name] for name in ("MetricName", "Statistic", "Period", "Threshold"))


def watched(alarm: Json) -> str:
    (dimension,) = alarm["Dimensions"]
    return flat(dimension["Value"])


def part(cloud: Cloud, consumer: ConsumerProps, name: str) -> str:
    return f"<{cloud.logical_id(f'once-service/{consumer.name}/{name}')}>"


def test_a_dead_letter_alarms(cloud: Cloud, consumer: ConsumerProps) -> None:
    alarm = cloud.of(consumer, "DeadLettersAlarm")
    assert plain(alarm) == ("ApproximateNumberOfMessagesVisible", "Maximum", 60, 1)
    assert watched(alarm) == part(cloud, consumer, "DeadLetters")[:-1] + ".QueueName>"


def test_a_message_alarms_long_before_the_queue_deletes_it(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    queues = {"Queue": "AgeAlarm"}
    if consumer.batch_size > 1:
        queues["Isolation"] = "IsolationAgeAlarm"
    for queue, name in queues.items():
        alarm = cloud.of(consumer, name)
        assert plain(alarm)[:3] == ("ApproximateAgeOfOldestMessage", "Maximum", 60)
        retention = cloud.of(consumer, queue)["MessageRetentionPeriod"]
        assert DAY <= alarm["Threshold"] <= retention - DAY
        assert watched(alarm) == part(cloud, consumer, queue)[:-1] + ".QueueName>"


def test_an_open_breaker_alarms(cloud: Cloud, consumer: ConsumerProps) -> None:
    alarm = cloud.of(consumer, "BreakerAlarm")
    assert plain(alarm) == (Metric.BREAKER_OPEN, "Sum", MOMENT, 1)
    assert watched(alarm) == f"once-{consumer.name}"


@pytest.mark.parametrize(("name", "threshold"), [("Errors", 3), ("Throttles", 5)])
def test_a_function_that_fails_as_a_whole_or_is_throttled_alarms(
    cloud: Cloud, consumer: ConsumerProps, name: str, threshold: int
) -> None:
    alarm = cloud.of(consumer, f"{name}Alarm")
    assert plain(alarm) == (name, "Sum", WHILE, threshold)
    assert watched(alarm) == part(cloud, consumer, "Function")


def test_a_function_that_cannot_start_alarms_before_its_first_message_is_given_up(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    receives = cloud.of(consumer, "Queue")["RedrivePolicy"]["maxReceiveCount"]
    visibility = cloud.of(consumer, "Queue")["VisibilityTimeout"]
    alarm = cloud.of(consumer, "ErrorsAlarm")
    assert alarm["Threshold"] < receives
    assert (alarm["Threshold"] - 1) * visibility < alarm["Period"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PendingAlarm", (Metric.PENDING_SECONDS, "Maximum", MOMENT, HOUR)),
        ("UnknownAlarm", (Metric.EFFECTS_UNKNOWN, "Sum", MOMENT, 1)),
    ],
)
@pytest.mark.parametrize(
    "line", [line for line in CONSUMERS if line.effect_timeout_seconds], ids=lambda line: line.name
)
def test_an_effect_without_an_outcome_alarms(
    cloud: Cloud, line: ConsumerProps, name: str, expected: tuple[Any, ...]
) -> None:
    alarm = cloud.of(line, name)
    assert plain(alarm) == expected
    assert watched(alarm) == f"once-{line.name}"


def test_only_who_has_effects_is_watched_for_them(alarms: dict[str, Json]) -> None:
    effects = {Metric.PENDING_SECONDS, Metric.EFFECTS_UNKNOWN}
    found = {watched(alarm) for alarm in alarms.values() if alarm.get("MetricName") in effects}
    assert found == {f"once-{line.name}" for line in CONSUMERS if line.effect_timeout_seconds > 0}


def percent(alarm: Json, **figures: int) -> float | None:
    """Compute an alarm's expression as CloudWatch does; None where it has no figure."""
    (expression,) = (q["Expression"] for q in alarm["Metrics"] if "Expression" in q)
    queries = [query for query in alarm["Metrics"] if "MetricStat" in query]
    assert {(q["MetricStat"]["Stat"], q["MetricStat"]["Period"]) for q in queries} == {
        ("Sum", WHILE)
    }
    functions = {
        "IF": lambda condition, then, otherwise: then if condition else otherwise,
        "FILL": lambda value, filling: filling if value is None else value,
    }
    values = {q["Id"]: figures.get(q["MetricStat"]["Metric"]["MetricName"]) for q in queries}
    try:
        return float(eval(expression, functions, values))
    except (TypeError, ZeroDivisionError):  # a figure is missing that nothing fills
        return None


@pytest.mark.parametrize(
    ("name", "metric", "others"),
    [
        ("ConflictsAlarm", "Conflicts", ("Committed", "Refused")),
        (
            "ResentAlarm",
            "DuplicatesResent",
            ("Committed", "Refused", "DuplicatesRedelivered", "DuplicatesRedriven"),
        ),
        (
            "RedeliveredAlarm",
            "DuplicatesRedelivered",
            ("Committed", "Refused", "DuplicatesResent", "DuplicatesRedriven"),
        ),
    ],
)
def test_a_fifth_of_conflicts_or_of_duplicates_alarms(
    cloud: Cloud, consumer: ConsumerProps, name: str, metric: str, others: tuple[str, ...]
) -> None:
    alarm = cloud.of(consumer, name)
    assert alarm["Threshold"] == 20
    assert {watched(one) for one in metrics_of(alarm)} == {f"once-{consumer.name}"}
    assert {one["MetricName"] for one in metrics_of(alarm)} == {metric, *others}
    assert percent(alarm, **{metric: 100}) == 100  # and nothing else is left
    for other in others:
        assert percent(alarm, **{metric: 100, other: 400}) == 20
    assert percent(alarm, **{metric: 100}, **dict.fromkeys(others, 100)) == 100 / (1 + len(others))
    assert percent(alarm, **{metric: 99}) == 0  # too few to say anything
    assert percent(alarm, **dict.fromkeys(others, 400)) is None  # none at all: missing data


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("DedupReadsAlarm", "ReadThrottleEvents"),
        ("DedupWritesAlarm", "WriteThrottleEvents"),
        ("DedupConflictsAlarm", "TransactionConflict"),
    ],
)
def test_a_dedup_table_that_holds_up_commits_alarms(cloud: Cloud, name: str, metric: str) -> None:
    alarm = cloud.properties(f"once-service/{name}")
    assert plain(alarm) == (metric, "Sum", WHILE, 100)
    (dimension,) = alarm["Dimensions"]
    assert cloud.exported(dimension["Value"]) == f"<{cloud.logical_id('once-state/dedup-records')}>"


def test_silence_is_no_alarm_and_one_figure_is_enough(alarms: dict[str, Json]) -> None:
    for alarm in alarms.values():
        assert alarm["TreatMissingData"] == "notBreaching"
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert alarm["EvaluationPeriods"] == 1


def test_every_alarm_says_whose_it_is_what_is_wrong_and_where_to_read_on(
    alarms: dict[str, Json],
) -> None:
    for alarm in alarms.values():
        assert DESCRIPTION.fullmatch(alarm["AlarmDescription"])


def test_metrics_have_one_dimension_with_few_values(alarms: dict[str, Json]) -> None:
    known = {"QueueName", "FunctionName", "EventSourceMappingUUID", "TableName", "service"}
    for metric in (metric for alarm in alarms.values() for metric in metrics_of(alarm)):
        (dimension,) = metric["Dimensions"]
        assert dimension["Name"] in known
        assert (dimension["Name"] == "service") == (metric["Namespace"] == Metric.NAMESPACE)
        if metric["Namespace"] == Metric.NAMESPACE:
            assert metric["MetricName"] in OURS


def test_the_library_is_told_the_name_that_alarms_ask_for(
    cloud: Cloud, alarms: dict[str, Json]
) -> None:
    functions = cloud.every("AWS::Lambda::Function").values()
    told = {f["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] for f in functions}
    asked = {
        watched(metric)
        for alarm in alarms.values()
        for metric in metrics_of(alarm)
        if metric["Namespace"] == Metric.NAMESPACE
    }
    assert asked == told - {f"once-{RELAY}", f"once-{UNROUTED}"}
