"""Overview: tasks for the operator, depths of the queues, and metrics of the last hour.

CloudWatch has these figures as metrics. Where it has none, as on an embedded AWS, the log lines are
read from which CloudWatch makes the metrics.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from math import inf
from typing import Any

from once.errors import UNREADABLE
from once.names import UNROUTED, Metric
from once.ops import status, terminal
from once.ops.aws.clients import client
from once.ops.aws.function_logs import log_events
from once.ops.console.dead_letter_pages import (
    MessageRow,
    failure_groups,
    kind_counts,
    read_messages,
)
from once.ops.console.rendering import BarChart, Request, Response, page, query_text
from once.ops.console.state import PATIENCE_SECONDS, QUEUE_SECONDS, max_age, state_of
from once.ops.dead_letters.assessment import RedriveOutcome
from once.ops.errors import OpsError

MINUTES = 60
_MAX_LINES = 20_000
"""Maximum number of log lines that are read for one function."""

_DELAYS = frozenset({Metric.RELAY_LAG_MS})

_Point = tuple[str, str, datetime, float]
"""Function, metric, time and value."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures by function and metric, one for each minute, the oldest first; and their source."""

    series: Mapping[tuple[str, str], Sequence[float]]
    source: str

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
        return Figures(series, "CloudWatch's metrics")
    return Figures(_series(_log_points(functions, begin, metrics), begin), "the functions' logs")


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


COLUMNS = {
    "Committed": [Metric.COMMITTED],
    "Duplicates": [Metric.REDELIVERED, Metric.REDRIVEN, Metric.RESENT],
    "Failures": [Metric.RETRIED, Metric.QUARANTINED, Metric.BREAKER_OPEN],
}
"""Charts of a consumer: name and the metrics whose sum it shows."""
METRICS = [metric for metrics in COLUMNS.values() for metric in metrics]
_BAR_MINUTES = 5
_FIGURES_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs the operator, and the first step; `query` leads to the page for it.

    `kinds` are its dead letters by the kind of their verdict, as far as they are read.
    """

    consumer: str
    text: str
    since: datetime | None
    step: str
    query: str | None = None
    kinds: Mapping[RedriveOutcome, int] = field(default_factory=dict)


def needs(
    rows: Iterable[status.QueueStatus], messages: Sequence[MessageRow], now: datetime
) -> Iterator[Need]:
    longest = terminal.parse_age_option(status.MAX_AGE, option="").total_seconds()
    for row in rows:
        name, own = row.consumer, [one for one in messages if one.consumer == row.consumer]
        if row.start_error:
            text = f"its function cannot start: {row.start_error}"
            yield Need(name, text, None, "Deploy a version that starts.")
        for fault in row.mapping_faults:
            yield Need(name, fault, None, "Enable it, or deploy again.")
        if row.dead_letters:
            thing = "unrouted event" if name == UNROUTED else "dead letter"
            since = min((one.sent_at for one in own), default=None)
            largest = max(failure_groups(own), key=lambda one: len(one.rows), default=None)
            step = "Look at the largest group" if largest else "Look at them"
            query = query_text(largest.query if largest else {"consumer": name})
            text = terminal.counted(row.dead_letters, thing)
            yield Need(name, text, since, step, query, kind_counts(own))
        if row.oldest_seconds is not None and row.oldest_seconds >= longest:
            since = now - timedelta(seconds=row.oldest_seconds)
            yield Need(name, "a message waits", since, "Read the log of its function.")


def overview_page(request: Request) -> Response:
    state, now, share = state_of(request), datetime.now(UTC), PATIENCE_SECONDS / 3
    functions = {one.name: one.function_name for one in state.deployment.consumers.values()}
    # CloudWatch bills each metric that is read: a page that is opened shows what a refresh shows.
    figures = state.readings.latest(
        "figures",
        lambda: read_figures([*functions.values()], datetime.now(UTC), METRICS),
        _FIGURES_SECONDS,
        share,
    )
    reading = state.read_queues(share)
    rows = reading.value
    messages: Sequence[MessageRow] = ()
    # To read the messages hides them for a moment: they are read when the page is opened alone.
    with suppress(OpsError):
        if any(row.dead_letters for row in rows):
            found = read_messages(state, max_age(request, opened=60, refreshed=inf), None, share)
            messages = found.known[0].rows if found.known else ()
    begin = now.replace(second=0, microsecond=0) - timedelta(minutes=MINUTES - 1)

    def chart(name: str, minutes: list[float]) -> BarChart:
        values = [sum(minutes[at : at + _BAR_MINUTES]) for at in range(0, MINUTES, _BAR_MINUTES)]
        label = f"{name} in the last hour, a bar for five minutes: {sum(values):g} in all"
        return BarChart(values, label, begin, begin + timedelta(minutes=MINUTES))

    def depth_chart(consumer: str) -> BarChart:
        depths = state.depths(consumer)
        label = f"messages in the queues of {consumer}: {depths[-1]} now"
        first = now - timedelta(seconds=QUEUE_SECONDS * len(depths))
        return BarChart(depths, label, first, now)

    known = figures.known[0] if figures.known else None
    return page(
        request,
        "overview.html",
        reading=replace(reading, under_way=reading.under_way or figures.under_way),
        needs=[*needs(rows, messages, now)],
        rows=rows,
        depths={row.consumer: depth_chart(row.consumer) for row in rows},
        columns=[*COLUMNS],
        activity={
            name: [chart(title, known.minutes(function, some)) for title, some in COLUMNS.items()]
            for name, function in functions.items()
        }
        if known
        else {},
        source=known.source if known else None,
    )
