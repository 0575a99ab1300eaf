"""Alarms, the topic that they notify, and the dashboard."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.assertions import Template

from docs.tools.alarm_states import FUNCTIONS, HOUR, begins, expression_of, states, value
from once.cdk.dashboard import make_dashboard
from once.cdk.monitoring import once_metric
from once.cdk.props import ConsumerProps
from once.cdk.resting_cost import at_rest
from once.names import RELAY, UNROUTED, Metric, explained_by
from stacks.consumers import CONSUMERS
from stacks.folders import ROOT
from tests.stacks.cloud import Cloud, Json, flat, listed, name_of

ADR = ROOT / "docs" / "adr" / "0080-few-alarms.md"

DAY = 24 * HOUR
VISIBLE, AGE = "ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"

DESCRIPTION = re.compile(
    rf"(now|today): once(-[a-z_-]+)?: [^.]+\. First: [^.]+\. "
    rf"{explained_by('[a-z-]+')}"
)

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
    for path, alarm in alarms_by_path(cloud.service).items():
        *owners, name = path
        if owners == ([owner] if owner else []) and "MetricName" in alarm:
            figures = (alarm[key] for key in ("MetricName", "Statistic", "Period", "Threshold"))
            found[name] = (*figures, watched(alarm))
    return found


def alarms_by_path(template: Json) -> dict[tuple[str, ...], Json]:
    """Return the alarms of a stack, by the names of their constructs below it."""
    return {
        tuple(resource["Metadata"]["aws:cdk:path"].split("/")[1:-1]): resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    }


def on_function(cloud: Cloud, owner: str) -> dict[str, Alarm]:
    return {"ErrorsAlarm": ("Errors", "Sum", HOUR // 4, 3, cloud.text(owner, "Function"))}


def on_math(alarm: Json) -> dict[str, tuple[str, str, int, str]]:
    """Return each metric of an expression by its name in it."""
    metrics = {q["Id"]: q["MetricStat"] for q in alarm["Metrics"] if "MetricStat" in q}
    return {
        name: (one["Metric"]["MetricName"], one["Stat"], one["Period"], watched(one["Metric"]))
        for name, one in metrics.items()
    }


@pytest.fixture(scope="module")
def every_alarm(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    """The shop with `alarms="all"`."""
    return Cloud.synthesize(tmp_path_factory.mktemp("all"), alarms="all")


def test_the_few_alarms_are_few_and_cost_little(cloud: Cloud, every_alarm: Cloud) -> None:
    found = alarms_by_path(cloud.service)
    shared = {(), (RELAY,), (UNROUTED,)}
    owners = Counter(path[:-1] for path in found)
    assert {owner: n for owner, n in owners.items() if owner not in shared and n > 5} == {}
    assert sum(owners[owner] for owner in shared) <= 4
    assert len(found) <= 30
    bill = {line.name: line.cost for line in at_rest(cloud.state, cloud.service)}
    assert sum(bill.values()) - bill["KMS key"] <= 9.80
    assert found.keys() < alarms_by_path(every_alarm.service).keys()


def test_alarms_of_a_consumer(cloud: Cloud, consumer: ConsumerProps) -> None:
    name = consumer.name
    late = {"DueAlarm": (Metric.DUE_LATE_MS, "Maximum", 300, 1000 * HOUR // 4, f"once-{name}")}
    assert simple_alarms(cloud, name) == {
        "RetriesAlarm": (Metric.RETRIED, "Sum", HOUR // 4, 5, f"once-{name}"),
        **(late if "payment.overdue" in consumer.events else {}),
        **on_function(cloud, name),
    }
    queues = {
        f"queue{number}": (AGE, "Maximum", 300, cloud.text(name, part, attribute="QueueName"))
        for number, part in enumerate(("Queue", "Isolation"))
    }
    age = cloud.of(consumer, "AgeAlarm")
    assert (age["Threshold"], on_math(age)) == (HOUR, queues)
    assert states(age, [{"queue0": HOUR - 1, "queue1": HOUR - 1}, {"queue1": HOUR}]) == "_A"


@pytest.mark.parametrize("owner", [*CONSUMERS, RELAY, UNROUTED], ids=name_of)
def test_each_queue_of_dead_letters_is_watched(cloud: Cloud, owner: str | ConsumerProps) -> None:
    names = {RELAY: "RelayAlarm", UNROUTED: "UnroutedAlarm"}
    alarm = cloud.of(owner, names.get(name_of(owner), "LettersAlarm"))
    queue = cloud.text(
        owner, "Queue" if owner == UNROUTED else "DeadLetters", attribute="QueueName"
    )
    assert on_math(alarm)["letters"] == (VISIBLE, "Maximum", 300, queue)
    assert "OKActions" not in alarm  # a purge is no repair
    if owner == RELAY:
        failed = "OnFailureDestinationDeliveredEventCount"
        found = on_math(alarm)
        assert found["age"] == ("IteratorAge", "Maximum", 300, cloud.text(RELAY, "Function"))
        assert found["failed"] == (failed, "Sum", 300, cloud.text(RELAY, "Mapping"))


def test_an_hour_without_a_poll_of_the_stream_alarms_and_an_empty_poll_does_not(
    cloud: Cloud,
) -> None:
    alarm = cloud.of(RELAY, "StoppedAlarm")
    assert watched(alarm) == cloud.text(RELAY, "Mapping")
    assert (alarm["MetricName"], alarm["Period"]) == ("PolledEventCount", HOUR // 4)
    assert cloud.of(RELAY, "Mapping")["MetricsConfig"] == {"Metrics": ["EventCount"]}
    polled = {"PolledEventCount": 0}
    assert states(alarm, [polled, {}, {}, {}, polled, {}, {}, {}, {}, polled]) == "________A_"
    assert states(alarm, [{"PolledEventCount": 100_000}] * 8) == "_" * 8


PERIODS = DAY // 300
MONDAY_NOON = 12 * 12
"""In periods of five minutes since Monday, 00:00 UTC."""


def letters(alarm: Json, *figures: int | None, begin: int = MONDAY_NOON) -> str:
    """Return the states of an alarm on letters, from the number of visible ones on."""
    return states(alarm, [{} if n is None else {"letters": n} for n in figures], begin)


def mails(found: str) -> int:
    """Return how often an alarm begins."""
    return len(begins(found))


def test_letters_are_one_notification_for_an_incident(cloud: Cloud) -> None:
    alarm = cloud.of("orders", "LettersAlarm")
    idle = [None] * 3  # an idle queue reports nothing
    # One letter every six minutes for a day, then none.
    rising = [5 * n // 6 + 1 for n in range(PERIODS)]
    assert mails(letters(alarm, *idle, *rising)) == 1
    # A purge in the middle, and letters go on.
    purged = [0 if 100 <= n < 103 else rising[n % 100] for n in range(PERIODS)]
    assert mails(letters(alarm, *idle, *purged)) == 1
    # The operator's looks hide all letters for a minute or more, on a day without new ones.
    assert mails(letters(alarm, *idle, *[0 if n in (9, 20) else 7 for n in range(70)])) == 1
    # A second wave, beside letters of the day before that still lie there.
    assert mails(letters(alarm, *idle, *[3] * 100, *[4] * 30)) == 2


def test_a_forgotten_letter_is_told_again_within_four_days(cloud: Cloud) -> None:
    alarm = cloud.of("orders", "LettersAlarm")
    found = letters(alarm, *[3] * 14 * PERIODS)  # it was there before
    starts = begins(found)
    assert len(starts) == 4
    gaps = [later - one for one, later in zip([0, *starts], [*starts, 14 * PERIODS], strict=True)]
    assert max(gaps) <= 4 * PERIODS


def test_a_first_letter_is_told_within_four_days_if_fill_gives_nothing_before_it(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle, alarm = [None] * 3, cloud.of("orders", "LettersAlarm")
    assert letters(alarm, *idle, 1, 1) == "___AA"
    monkeypatch.setitem(FUNCTIONS, "FILL", lambda figure, _: figure)
    assert letters(alarm, *idle, 1, 1) == "_____"
    assert "A" in letters(alarm, *idle, *[1] * 4 * PERIODS)


def test_the_alarm_on_letters_lasts_as_long_as_they_do_on_the_embedded_aws(
    local_cloud: Cloud,
) -> None:
    queue = local_cloud.text("orders", "DeadLetters", attribute="QueueName")
    found = simple_alarms(local_cloud, "orders")["LettersAlarm"]
    assert found == (VISIBLE, "Maximum", 300, 1, queue)
    assert not [a for a in local_cloud.every("AWS::CloudWatch::Alarm").values() if "Metrics" in a]


def test_shared_alarms(cloud: Cloud, every_alarm: Cloud) -> None:
    [alarm] = [each for path, each in alarms_by_path(cloud.service).items() if len(path) == 1]
    found = (alarm["MetricName"], alarm["Statistic"], alarm["Period"], alarm["Threshold"])
    assert found == ("Throttles", "Sum", HOUR // 4, 5)
    assert "Dimensions" not in alarm  # of the account, whose functions share their concurrency
    for name, metrics in {
        "DedupThrottlesAlarm": {"ReadThrottleEvents", "WriteThrottleEvents"},
        "DedupConflictsAlarm": {"TransactionConflict"},
    }.items():
        alarm = every_alarm.of(name)
        assert {one["MetricName"] for one in metrics_of(alarm)} == metrics
        assert {one["Namespace"] for one in metrics_of(alarm)} == {"AWS/DynamoDB"}
        # It ends although the metric has no data: CloudWatch would keep the state.
        first = next(iter(on_math(alarm)))
        assert states(alarm, [{first: 99}, {first: 100}, {}]) == "_A_"
        assert value(expression_of(alarm), [{}], 0) == 0


def test_an_alarm_says_how_soon_the_first_step_and_its_entry_and_notifies(
    cloud: Cloud, every_alarm: Cloud
) -> None:
    for each in (cloud, every_alarm):
        for alarm in each.every("AWS::CloudWatch::Alarm").values():
            on_silence = "relay-stopped" in alarm["AlarmDescription"]
            assert (alarm["TreatMissingData"] == "breaching") is on_silence
            assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
            assert DESCRIPTION.fullmatch(alarm["AlarmDescription"])
            soon, part, *_, entry = re.split(r":? ", alarm["AlarmDescription"].strip("`"))
            assert alarm["AlarmName"] == f"{part}-{soon}-{entry}"
            assert alarm["AlarmActions"] == [each.ref("Alarms")]
            assert alarm.get("OKActions", alarm["AlarmActions"]) == alarm["AlarmActions"]
            assert "ActionsEnabled" not in alarm


ROW = re.compile(r"^\| (\w\d+(?: \w\d+)*) \|.*\| (\w+)/(\w+) \| `(\w+)` = (\d+) \|$", re.MULTILINE)


def test_each_fault_of_the_guarantees_has_its_alarm_or_needs_none(cloud: Cloud) -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text().partition("## What goes wrong")[2]
    catalogue = re.findall(r"^\| (\w\d+) \|", page, re.MULTILINE)
    text = ADR.read_text()
    (none,) = re.findall(r"^\| (\w\d+(?: \w\d+)*) \|.*\| none \| \|$", text, re.MULTILINE)
    found = ROW.findall(text)
    walked = " ".join([none, *(faults for faults, *_ in found)]).split()
    assert sorted(set(walked)) == sorted(catalogue)
    for faults, owner, name, metric, figure in found:
        alarm = cloud.of(*([] if owner == "service" else [owner]), name)
        names = {each[0]: key for key, each in on_math(alarm).items()} if "Metrics" in alarm else {}
        key = names.get(metric, metric)
        quiet, loud = {key: int(figure) - 1}, {key: int(figure)}
        assert states(alarm, [quiet, quiet, loud, {}]).startswith("__A"), faults


def test_each_alarm_of_the_shop_is_in_the_decision(cloud: Cloud, every_alarm: Cloud) -> None:
    rows = re.findall(r"^\| `(\w+Alarm)` \|.*\| (kept|merged|graph)", ADR.read_text(), re.MULTILINE)
    fates = dict(rows)
    few = {path[-1] for path in alarms_by_path(cloud.service)}
    every = {path[-1] for path in alarms_by_path(every_alarm.service)}
    assert few - {"QuietGroupsAlarm"} == {n for n in fates if fates[n] == "kept"} & every
    assert every <= fates.keys()


def test_functions_emit_metrics_under_the_name_that_alarms_watch(
    cloud: Cloud, alarms: list[Json]
) -> None:
    functions = cloud.every("AWS::Lambda::Function").values()
    emitted = {f["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] for f in functions}
    metrics: Any = (metric for alarm in alarms for metric in metrics_of(alarm))
    asked = {watched(metric) for metric in metrics if metric["Namespace"] == Metric.NAMESPACE}
    assert asked == emitted - {f"once-{RELAY}", f"once-{UNROUTED}"}


def percent(alarm: Json, period: int = HOUR // 4, **figures: int) -> float | None:
    """Evaluate an alarm's expression; None if a figure is missing."""
    named = on_math(alarm)
    assert {(each[1], each[2]) for each in named.values()} == {("Sum", period)}
    given = {key: figures[each[0]] for key, each in named.items() if each[0] in figures}
    return value(expression_of(alarm), [given], 0)


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
    every_alarm: Cloud, consumer: ConsumerProps, name: str, metric: str, total: set[str]
) -> None:
    alarm, others = every_alarm.of(consumer, name), total - {metric}
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
        ({"InvokedEventCount": 1}, None),
        ({}, None),
    ],
)
def test_messages_that_are_received_and_never_handed_over_alarm(
    every_alarm: Cloud, consumer: ConsumerProps, figures: dict[str, int], value: float | None
) -> None:
    alarm = every_alarm.of(consumer, "HandOverAlarm")
    assert (alarm["Threshold"], alarm["EvaluationPeriods"]) == (1, 2)
    assert {watched(one) for one in metrics_of(alarm)} == {every_alarm.text(consumer, "Mapping")}
    assert percent(alarm, 300, **figures) == value
    relay = every_alarm.of(RELAY, "HandOverAlarm")
    assert percent(relay, 300, **figures) == value
    if value:  # what the filter drops is no loss
        assert percent(relay, 300, FilteredOutEventCount=1, **figures) == value - 1


def allowed_to_cloudwatch(policy: Json) -> Json:
    (found,) = (
        statement
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow"
        and {"Service": "cloudwatch.amazonaws.com"} in listed(statement["Principal"])
    )
    return dict(found)


def test_cloudwatch_may_publish_to_the_topic_which_has_no_key(cloud: Cloud) -> None:
    # CloudWatch may not use the key of AWS: it would drop the notification without an error.
    assert "Properties" not in cloud.resource("Alarms")
    publish = allowed_to_cloudwatch(cloud.of("Alarms", "Policy")["PolicyDocument"])
    assert publish["Action"] == "sns:Publish"
    assert flat(publish["Condition"]["ArnLike"]["aws:SourceArn"]) == (
        "arn:<AWS::Partition>:cloudwatch:<AWS::Region>:<AWS::AccountId>:alarm:*"
    )


def body_of(dashboard: Json) -> Json:
    """Return what a dashboard shows, with references as text."""
    body: Json = json.loads(flat(dashboard["DashboardBody"]))
    return body


def test_the_dashboard_shows_the_shop_in_twelve_graphs_and_then_a_chosen_consumer(
    cloud: Cloud,
) -> None:
    [dashboard] = cloud.every("AWS::CloudWatch::Dashboard").values()
    body = body_of(dashboard)
    alarms, *graphs = (widget["properties"] for widget in body["widgets"])
    assert len(alarms["alarms"]) == len(alarms_by_path(cloud.service))
    titles = [graph["title"] for graph in graphs]
    [variable] = body["variables"]
    pages = titles.index(f"{variable['pattern']}: outcomes")
    assert titles[:4] == [
        *("messages waiting or retried", "oldest message, seconds", "dead letters"),
        "commit and relay, p99, ms",
    ]
    assert {"retried", "dead-lettered", "function errors"} < {*titles[:pages]}
    assert pages <= 12
    for graph in graphs[:4]:  # its first row shows every consumer
        shown = {m[-1]["label"] for m in graph["metrics"] if "label" in m[-1]}
        assert shown >= {consumer.name for consumer in CONSUMERS}
    chosen = [each["value"] for each in variable["values"]]
    assert (chosen, variable["defaultValue"]) == ([each.name for each in CONSUMERS], "orders")
    of_one = [m for g in graphs[pages : pages + 4] for m in g["metrics"] if len(m) > 1]
    assert {m[3] for m in of_one} == {f"once-{variable['pattern']}"}


def test_the_dashboard_draws_the_thresholds_of_the_alarms_over_their_periods(cloud: Cloud) -> None:
    [dashboard] = cloud.every("AWS::CloudWatch::Dashboard").values()
    drawn = {
        (metric[1], metric[-1].get("period", 300)): line["value"]
        for widget in body_of(dashboard)["widgets"]
        for line in widget["properties"].get("annotations", {}).get("horizontal", ())
        for metric in widget["properties"]["metrics"]
        if len(metric) > 1
    }
    for name in ("LettersAlarm", "AgeAlarm", "RetriesAlarm", "ErrorsAlarm"):
        alarm = cloud.of("orders", name)
        metric = next(metrics_of(alarm))["MetricName"]
        period = alarm.get("Period") or alarm["Metrics"][1]["MetricStat"]["Period"]
        assert drawn[metric, period] == alarm["Threshold"]


def test_a_widget_has_no_more_alarms_than_cloudwatch_takes() -> None:
    stack = cdk.Stack()
    for number in range(150):
        metric = once_metric("box", Metric.RETRIED)
        cloudwatch.Alarm(stack, f"A{number}", metric=metric, threshold=1, evaluation_periods=1)
    make_dashboard(stack, "many", [])
    found = Template.from_stack(stack).find_resources("AWS::CloudWatch::Dashboard").values()
    [body] = (body_of(each["Properties"]) for each in found)
    widgets = (each["properties"] for each in body["widgets"] if each["type"] == "alarm")
    assert [len(each["alarms"]) for each in widgets] == [100, 50]
