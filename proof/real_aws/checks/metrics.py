"""Checks of CloudWatch: mapping metrics, and an alarm on a real dead letter.

An emulator may accept the calls and record nothing. Without even the metrics that AWS always
records, there is nothing to judge: such a check was not observed.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from proof.real_aws.check import FAILED, NOT_OBSERVED, PASSED, Check, Seen, Target, queue_name

_MAPPING = ("PolledEventCount", "InvokedEventCount", "DeletedEventCount")
_WAITING_DEAD_LETTERS = "dead letters have arrived"
"""In the description of the alarm on dead letters."""
_PERIOD_SECONDS = 60


def recorded(target: Target, namespace: str, name: str, dimension: str, value: str) -> float | None:
    """Return the sum of a metric since the run began; None if it was never recorded."""
    points = target.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=name,
        Dimensions=[{"Name": dimension, "Value": value}],
        StartTime=target.started - timedelta(minutes=2),
        EndTime=datetime.now(UTC),
        Period=_PERIOD_SECONDS,
        Statistics=["Sum"],
    )["Datapoints"]
    return sum(point["Sum"] for point in points) if points else None


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
    "the mapping records polled, invoked and deleted messages (EventCount)",
    900,
    if_not="set mapping_metrics=False; the dashboard lacks the row",
)
def mapping_metrics(target: Target) -> Iterator[Seen]:
    mapping = target.mapping("counter")
    counted = mapping.get("MetricsConfig", {}).get("Metrics", [])
    while True:
        found = {
            name: recorded(target, "AWS/Lambda", name, "EventSourceMappingUUID", mapping["UUID"])
            for name in _MAPPING
        }
        if all(found.values()):
            yield Seen(f"MetricsConfig {counted}: {found}", PASSED)
        always = _invocations(target)
        text = f"MetricsConfig {counted}: {found}; Invocations of the function: {always}"
        yield _waiting(target, text, always)


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
