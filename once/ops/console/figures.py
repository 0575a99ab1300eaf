"""Figures: what the functions counted in each minute of the last hour.

CloudWatch has them as metrics. Where it has none, as on an embedded AWS, the log lines are read
from which CloudWatch makes the metrics.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from threading import Lock
from time import monotonic
from typing import Any

from once.errors import UNREADABLE
from once.metric_names import Metric
from once.ops.aws.clients import client

MINUTES = 60
SECONDS = 30.0
"""Time between two readings: CloudWatch bills each metric that is read."""
_MOST_LINES = 20_000
"""Most log lines that are read for one function."""

DUPLICATES = (Metric.REDELIVERED, Metric.REDRIVEN, Metric.RESENT)
METRICS = (Metric.COMMITTED, *DUPLICATES, Metric.RETRIED, Metric.QUARANTINED, Metric.BREAKER_OPEN)

_DELAYS = frozenset({Metric.RELAY_LAG_MS})

_Series = dict[tuple[str, str], list[float]]
"""Function and metric → a figure for each minute."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of some functions.

    Attributes:
        series: function and metric → a figure for each minute, the oldest first.
        source: where they come from, in words.
    """

    series: Mapping[tuple[str, str], Sequence[float]]
    source: str

    def minutes(self, function: str, metrics: Iterable[str]) -> list[float]:
        """Return the sum of some metrics in each minute."""
        chosen = [self.series.get((function, metric), [0.0] * MINUTES) for metric in metrics]
        return [sum(values) for values in zip(*chosen, strict=True)]


def read_figures(
    functions: Sequence[str], now: datetime, metrics: Sequence[str] = METRICS
) -> Figures:
    """Return the figures of the last hour.

    Args:
        functions: the functions' full names.
        now: end of the hour.
        metrics: names of metrics; a minute has the sum of its values, of a delay the longest.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: they cannot be read.
    """
    begin = now.replace(second=0, microsecond=0) - timedelta(minutes=MINUTES - 1)
    if series := _from_metrics(functions, begin, now, metrics):
        return Figures(series, "CloudWatch's metrics")
    return Figures(_from_logs(functions, begin, metrics), "the functions' logs")


class RecentFigures:
    """Figures of some functions, read again when they are too old; safe for threads.

    Args:
        functions: the functions' full names.
    """

    def __init__(self, functions: Sequence[str]) -> None:
        self._functions = functions
        self._lock = Lock()
        self._read_at = -SECONDS
        self._figures: Figures | None = None

    def latest(self) -> Figures:
        """Return the figures of the last hour, at most half a minute old.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: they cannot be read.
        """
        with self._lock:
            if self._figures is None or monotonic() - self._read_at >= SECONDS:
                self._figures = read_figures(self._functions, datetime.now(UTC))
                self._read_at = monotonic()
            return self._figures


def _from_metrics(
    functions: Sequence[str], begin: datetime, now: datetime, metrics: Sequence[str]
) -> _Series:
    wanted = dict(enumerate(product(functions, metrics)))
    pages = (
        client("cloudwatch")
        .get_paginator("get_metric_data")
        .paginate(
            MetricDataQueries=[_query(number, *one) for number, one in wanted.items()],
            StartTime=begin,
            EndTime=now,
        )
    )
    series: _Series = {}
    for result in (result for page in pages for result in page["MetricDataResults"]):
        values = series.setdefault(wanted[int(result["Id"][1:])], [0.0] * MINUTES)
        for moment, value in zip(result["Timestamps"], result["Values"], strict=True):
            _add(values, begin, moment, value)
    return {name: values for name, values in series.items() if any(values)}


def _query(number: int, function: str, metric: str) -> dict[str, Any]:
    service = {"Name": "service", "Value": function}
    stat = "Maximum" if metric in _DELAYS else "Sum"
    found = {"Namespace": Metric.NAMESPACE, "MetricName": metric, "Dimensions": [service]}
    return {"Id": f"m{number}", "MetricStat": {"Metric": found, "Period": 60, "Stat": stat}}


def _from_logs(functions: Sequence[str], begin: datetime, metrics: Sequence[str]) -> _Series:
    series: _Series = defaultdict(lambda: [0.0] * MINUTES)
    for function in functions:
        for moment, line in _metric_lines(function, begin):
            for metric in metrics:
                combine = max if metric in _DELAYS else sum
                _add(series[function, metric], begin, moment, _figure(line.get(metric)), combine)
    return series


def _metric_lines(function: str, begin: datetime) -> Iterator[tuple[datetime, dict[str, Any]]]:
    pages = (
        client("logs")
        .get_paginator("filter_log_events")
        .paginate(
            logGroupName=f"/aws/lambda/{function}",
            filterPattern='"CloudWatchMetrics"',
            startTime=int(begin.timestamp() * 1000),
        )
    )
    events = (event for page in pages for event in page["events"])
    with suppress(client("logs").exceptions.ResourceNotFoundException):  # it has never run
        for event in islice(events, _MOST_LINES):
            if line := _metric_line(event["message"]):
                yield datetime.fromtimestamp(event["timestamp"] / 1000, UTC), line


def _metric_line(text: str) -> dict[str, Any] | None:
    """Return a log line with metrics of a function; None for another one."""
    try:
        line: dict[str, Any] = json.loads(text)
        [described] = line["_aws"]["CloudWatchMetrics"]
        is_of_function = described["Dimensions"] == [["service"]]
    except (*UNREADABLE, TypeError, KeyError):  # a line of the handler
        return None
    return line if is_of_function else None  # quarantines are counted once more by their reason


def _figure(value: Any) -> float:
    """Return the sum of a line's values; a line has one delay."""
    values = value if isinstance(value, list) else [value]
    return float(sum(one for one in values if isinstance(one, int | float)))


def _add(
    values: list[float],
    begin: datetime,
    moment: datetime,
    value: float,
    combine: Callable[[tuple[float, float]], float] = sum,
) -> None:
    minute = int((moment - begin).total_seconds() // 60)
    if 0 <= minute < len(values):
        values[minute] = combine((values[minute], value))
