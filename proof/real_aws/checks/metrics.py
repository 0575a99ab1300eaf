"""Checks of CloudWatch: mapping metrics, metric math, ages, and an alarm on a real dead letter.

An emulator may accept the calls and record nothing. Without even the metrics that AWS always
records, there is nothing to judge: such a check was not observed.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from proof.real_aws.check import (
    FAILED,
    NOT_OBSERVED,
    PASSED,
    Check,
    Seen,
    Target,
    queue_name,
    verdict,
)

_MAPPING = ("PolledEventCount", "InvokedEventCount")
_WAITING_DEAD_LETTERS = "dead letters have arrived"
"""In the description of the alarm on dead letters."""
_PERIOD_SECONDS = 60


def figures(
    target: Target, namespace: str, name: str, dimension: str, value: str, statistic: str = "Sum"
) -> dict[datetime, float]:
    """Return a metric since the run began, by minute."""
    points = target.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=name,
        Dimensions=[{"Name": dimension, "Value": value}],
        StartTime=target.started - timedelta(minutes=2),
        EndTime=datetime.now(UTC),
        Period=_PERIOD_SECONDS,
        Statistics=[statistic],
    )["Datapoints"]
    return {point["Timestamp"]: point[statistic] for point in points}


def recorded(target: Target, *metric: str) -> float | None:
    """Return the sum of a metric since the run began; None if it was never recorded."""
    found = figures(target, *metric).values()
    return sum(found) if found else None


def _waiting(target: Target, text: str, always: float | None) -> Seen:
    """Wait on; at the deadline it is a failure only if this AWS records metrics at all.

    Args:
        target: the service.
        text: what was observed.
        always: a metric that AWS always records; None if it was not.
    """
    if always is not None:
        return Seen(text)
    if target.local:
        return Seen(f"{text}; an embedded AWS records no metrics", NOT_OBSERVED)
    return Seen(text, at_deadline=NOT_OBSERVED)


def _invocations(target: Target) -> float | None:
    function = target.parts.consumer("counter").function_name
    return recorded(target, "AWS/Lambda", "Invocations", "FunctionName", function)


@partial(
    Check,
    "mapping-metrics",
    "the relay's mapping counts its polls, those without a record as 0, and its hand-overs",
    900,
    if_not="if empty polls have no figure, StoppedAlarm is active while no event is published: "
    "turn its actions off, and look at `once status` by a schedule of your own",
)
def mapping_metrics(target: Target) -> Iterator[Seen]:
    mapping = target.relay_mapping()
    counted = mapping.get("MetricsConfig", {}).get("Metrics", [])
    of_mapping = ("EventSourceMappingUUID", mapping["UUID"])
    while True:
        polls, handed = (
            [*figures(target, "AWS/Lambda", name, *of_mapping).values()] for name in _MAPPING
        )
        text = f"MetricsConfig {counted}: polled {polls}, invoked {handed}"
        if any(polls) and any(handed) and 0 in polls:
            yield Seen(text, PASSED)
        always = _invocations(target)
        yield _waiting(target, f"{text}; Invocations of a function: {always}", always)


@partial(
    Check,
    "alarm",
    "a dead letter sets the alarm on dead letters off",
    1500,
    if_not="look at `once status` by a schedule of your own until it is mended",
)
def alarm(target: Target) -> Iterator[Seen]:
    url = target.parts.consumer("counter").dead_letter_url
    target.publish(["{ not JSON"])
    pages = target.client("cloudwatch").get_paginator("describe_alarms")
    found = pages.paginate(AlarmNamePrefix=f"{target.parts.service}-")
    alarms = [
        str(alarm["AlarmName"])
        for page in found
        for alarm in page["MetricAlarms"]
        if f'"{queue_name(url)}"' in json.dumps(alarm, default=str)
        and _WAITING_DEAD_LETTERS in str(alarm.get("AlarmDescription", ""))
    ]
    if not alarms:
        yield Seen(f"there is no alarm on the dead letters in {queue_name(url)}", FAILED)
        return
    yield from _until_alarm(target, alarms[0])
    target.client("sqs").purge_queue(QueueUrl=url)
    yield Seen(f"{alarms[0]} was in ALARM with dead letters", PASSED)


def _until_alarm(target: Target, alarm: str) -> Iterator[Seen]:
    queue = queue_name(target.parts.consumer("counter").dead_letter_url)
    cloudwatch = target.client("cloudwatch")
    while True:
        [now] = cloudwatch.describe_alarms(AlarmNames=[alarm])["MetricAlarms"]
        if now["StateValue"] == "ALARM":
            return
        dead_letters = recorded(target, "AWS/SQS", "NumberOfMessagesSent", "QueueName", queue)
        text = f"{alarm} is {now['StateValue']}, not ALARM; dead letters sent: {dead_letters}"
        yield _waiting(target, text, dead_letters)


_FILLED_MINUTES = 15


@partial(
    Check,
    "fill",
    "FILL gives zeros for a metric that never had data, and before the first figure of another",
    600,
    if_not="the first dead letter of a queue that was never used is told on the next Monday or "
    "Thursday: look at `once dlq list` until then. The other alarms do not depend on it",
)
def fill(target: Target) -> Iterator[Seen]:
    if target.local:
        yield Seen("an embedded AWS computes no expressions", NOT_OBSERVED)
        return
    cloudwatch, namespace = target.client("cloudwatch"), target.parts.service
    cloudwatch.put_metric_data(Namespace=namespace, MetricData=[{"MetricName": "once", "Value": 7}])
    while True:
        found = _filled(cloudwatch, namespace)
        text = f"in {_FILLED_MINUTES} minutes: {found}"
        if 7 in found["once"]:
            yield verdict(found["once"][0] == 0 and 0 in found["never"], text)
        yield Seen(f"the figure is not there yet; {text}", at_deadline=NOT_OBSERVED)


def _filled(cloudwatch: Any, namespace: str) -> dict[str, list[float]]:
    """Return the figures of a metric with one figure, and of one without any, filled with 0."""
    queries: list[dict[str, Any]] = []
    for name in ("once", "never"):
        metric = {"Namespace": namespace, "MetricName": name}
        stat = {"Metric": metric, "Period": _PERIOD_SECONDS, "Stat": "Maximum"}
        queries.append({"Id": f"m_{name}", "MetricStat": stat, "ReturnData": False})
        queries.append({"Id": name, "Expression": f"FILL(m_{name}, 0)"})
    now = datetime.now(UTC)
    start = now - timedelta(minutes=_FILLED_MINUTES)
    answer = cloudwatch.get_metric_data(
        MetricDataQueries=queries, StartTime=start, EndTime=now, ScanBy="TimestampAscending"
    )
    return {each["Id"]: each["Values"] for each in answer["MetricDataResults"]}


_OFTEN = 4
"""Receives after which SQS leaves a message out, by its guide: more than three."""
_AFTERWARDS = timedelta(minutes=4)


@partial(
    Check,
    "fifo-age",
    "a FIFO message that was received four times and not deleted leaves the age of the oldest "
    "message",
    1500,
    if_not="nothing to do: AgeAlarm then also tells of messages that RetriesAlarm tells of",
)
def fifo_age(target: Target) -> Iterator[Seen]:
    if target.local:
        yield Seen("an embedded AWS records no metrics", NOT_OBSERVED)
        return
    sqs, name = target.client("sqs"), f"{target.parts.service}-age.fifo"
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="1", MessageGroupId="1")
    age = ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", name, "Maximum")
    while not any((found := figures(target, *age)).values()):
        yield Seen(f"the message has no age yet: {found}", at_deadline=NOT_OBSERVED)
    for _ in range(_OFTEN):
        sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
    received = datetime.now(UTC)
    while not (later := _after(figures(target, *age), received + _AFTERWARDS)):
        if datetime.now(UTC) > received + 3 * _AFTERWARDS:
            break  # no figure at all: it was left out
        yield Seen("its age after the receives is not known yet", at_deadline=NOT_OBSERVED)
    yield verdict(not any(later), f"received {_OFTEN} times; its age afterwards: {later}")


def _after(found: Mapping[datetime, float], moment: datetime) -> list[float]:
    return [figure for time, figure in found.items() if time > moment]
