"""Figures of functions in the last hour, a value for each minute, for tables and charts.

CloudWatch has these figures as metrics. Where it has none, as on an embedded AWS, the log lines are
read from which CloudWatch makes the metrics.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from typing import Any

from once.errors import UNREADABLE
from once.names import Metric
from once.ops.aws.clients import client
from once.ops.aws.function_logs import log_events

MINUTES = 60
_MAX_LINES = 20_000
"""Maximum number of log lines that are read for one function."""

_DELAYS = frozenset({Metric.RELAY_LAG_MS})

_Point = tuple[str, str, datetime, float]
"""Function, metric, time and value."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures by function and metric, one for each minute from `begin`; and their source."""

    series: Mapping[tuple[str, str], Sequence[float]]
    source: str
    begin: datetime

    def minutes(self, function: str, metrics: Iterable[str]) -> list[float]:
        """Return the sum of some metrics in each minute."""
        chosen = [self.series.get((function, metric), [0.0] * MINUTES) for metric in metrics]
        return [sum(values) for values in zip(*chosen, strict=True)]


def read_figures(functions: Sequence[str], now: datetime, metrics: Sequence[str]) -> Figures:
    """Return the figures of functions, by their full names, in the hour that ends now.

    A minute has the sum of a metric's values, of a delay the longest.
    """
    begin = now.replace(second=0, microsecond=0) - timedelta(minutes=MINUTES - 1)
    series = _series(_metric_points(functions, begin, now, metrics), begin)
    if any(map(any, series.values())):
        return Figures(series, "CloudWatch's metrics", begin)
    series = _series(_log_points(functions, begin, metrics), begin)
    return Figures(series, "the functions' logs", begin)


def _series(points: Iterable[_Point], begin: datetime) -> Mapping[tuple[str, str], list[float]]:
    series: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * MINUTES)
    for function, metric, moment, value in points:
        values, minute = series[function, metric], int((moment - begin).total_seconds() // 60)
        if 0 <= minute < MINUTES:
            is_delay = metric in _DELAYS
            values[minute] = max(values[minute], value) if is_delay else values[minute] + value
    return series


def _metric_points(
    functions: Sequence[str], begin: datetime, now: datetime, metrics: Sequence[str]
) -> Iterator[_Point]:
    names = [*product(functions, metrics)]
    queries = []
    for number, (function, metric) in enumerate(names):
        service = {"Name": "service", "Value": function}
        stat = "Maximum" if metric in _DELAYS else "Sum"
        found = {"Namespace": Metric.NAMESPACE, "MetricName": metric, "Dimensions": [service]}
        whole = {"Metric": found, "Period": 60, "Stat": stat}
        queries.append({"Id": f"m{number}", "MetricStat": whole})
    paginator = client("cloudwatch").get_paginator("get_metric_data")
    for answer in paginator.paginate(MetricDataQueries=queries, StartTime=begin, EndTime=now):
        for result in answer["MetricDataResults"]:
            function, metric = names[int(result["Id"][1:])]
            for moment, value in zip(result["Timestamps"], result["Values"], strict=True):
                yield function, metric, moment, value


def _log_points(
    functions: Sequence[str], begin: datetime, metrics: Sequence[str]
) -> Iterator[_Point]:
    logs = client("logs")
    for function in functions:
        events = log_events(logs, function, "CloudWatchMetrics", int(begin.timestamp() * 1000))
        with suppress(logs.exceptions.ResourceNotFoundException):  # it has never run
            for event in islice(events, _MAX_LINES):
                moment = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
                for metric, found in _metrics_in(event["message"]).items():
                    if metric in metrics:
                        values = found if isinstance(found, list) else [found]  # a line has 1 delay
                        numbers = [one for one in values if isinstance(one, int | float)]
                        yield function, metric, moment, float(sum(numbers))


def _metrics_in(text: str) -> Mapping[str, Any]:
    """Return a log line with metrics of a function; nothing of another line."""
    try:
        line: dict[str, Any] = json.loads(text)
        [described] = line["_aws"]["CloudWatchMetrics"]
        is_of_function = described["Dimensions"] == [["service"]]
    except (*UNREADABLE, TypeError, KeyError):  # a line of the handler
        return {}
    return line if is_of_function else {}  # quarantines are counted once more by their reason
