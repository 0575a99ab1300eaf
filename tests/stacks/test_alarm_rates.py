"""Alarms on rates, evaluated as CloudWatch does."""

import pytest

from once.cdk.props import ConsumerProps
from tests.stacks.alarm_metrics import metrics_of, watched
from tests.stacks.cloud import Cloud, Json

HOUR = 60 * 60


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
