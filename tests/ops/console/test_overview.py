"""The overview shows what `once status` shows, and what the consumers counted."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import boto3
from starlette.testclient import TestClient

from once.names import Metric
from once.ops.console.overview import METRICS, MINUTES, read_figures
from tests.ops.cloud import Cloud

NOW = datetime.now(UTC)


def metric_line(**figures: float) -> str:
    named = [{"Name": name} for name in figures]
    described: dict[str, Any] = {"Dimensions": [["service"]], "Metrics": named}
    aws = {"Timestamp": int(NOW.timestamp() * 1000), "CloudWatchMetrics": [described]}
    return json.dumps({"_aws": aws, "service": "once-orders", **figures})


def log(*messages: str) -> None:
    logs, group = boto3.client("logs"), "/aws/lambda/once-orders"
    for name in ("once-orders", "once-inventory"):
        logs.create_log_group(logGroupName=f"/aws/lambda/{name}")
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    events = [{"timestamp": int(time.time() * 1000), "message": text} for text in messages]
    logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=events)


def test_the_overview_shows_each_queue_and_each_consumer(browser: TestClient, cloud: Cloud) -> None:
    log(metric_line(Committed=3, DuplicatesResent=2))
    cloud.bury("orders", error="failed")
    text = browser.get("").text
    assert text.count(' class="stuck"') == 1
    assert "Committed in the last hour, a bar for five minutes: 3 in all" in text
    assert "Duplicates in the last hour, a bar for five minutes: 2 in all" in text


def test_figures_of_the_logs_are_summed_by_minute(cloud: Cloud) -> None:
    by_reason = json.loads(metric_line(Quarantined=1))
    by_reason["_aws"]["CloudWatchMetrics"][0]["Dimensions"] = [["service", "reason"]]
    lines = [
        metric_line(Committed=3),
        metric_line(Committed=4, Quarantined=1),
        '"CloudWatchMetrics"',
    ]
    log(*lines, json.dumps(by_reason))
    figures = read_figures(["once-orders", "once-inventory"], datetime.now(UTC), METRICS)
    assert sum(figures.minutes("once-orders", [Metric.COMMITTED])) == 7
    assert sum(figures.minutes("once-orders", [Metric.QUARANTINED])) == 1
    assert figures.minutes("once-inventory", [Metric.COMMITTED]) == [0.0] * MINUTES
    assert figures.source == "the functions' logs"


def test_figures_of_cloudwatch_come_first(cloud: Cloud) -> None:
    boto3.client("cloudwatch").put_metric_data(
        Namespace=Metric.NAMESPACE,
        MetricData=[
            {
                "MetricName": Metric.COMMITTED,
                "Dimensions": [{"Name": "service", "Value": "once-orders"}],
                "Timestamp": NOW,
                "Value": 5,
            }
        ],
    )
    figures = read_figures(["once-orders"], datetime.now(UTC), METRICS)
    assert sum(figures.minutes("once-orders", [Metric.COMMITTED])) == 5
    assert figures.source == "CloudWatch's metrics"
