"""Records the metrics of a run: what CloudWatch would have of it.

The embedded AWS makes no metrics of the log lines in which functions report theirs (EMF), and none
of functions and queues. So a report has the figures of these lines, the invocations, the processes
that died, which Lambda counts as `Errors`, and the depths of the queues, sampled each second.
`docs/tools` evaluates the alarms over it, and draws the dashboard.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from demo.background import background
from demo.report import REPORTS
from demo.shop import Shop
from once.names import RELAY, UNROUTED, Metric
from once.ops.aws.clients import depth

Series = dict[str, dict[str, list[list[float]]]]
"""Entries by the owner of a metric and the metric: a second of the run, and the figures in it."""

_COUNTED = {"START RequestId": "Invocations", "Worker process died": "Errors"}
"""Begins of the lines that the embedded AWS logs, by which Lambda's metrics are counted."""
_VISIBLE, _HIDDEN = "ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible"


@contextmanager
def recorded_metrics(shop: Shop, name: str) -> Iterator[None]:
    """Record the metrics of a run in `reports/<name>.json`, at its end.

    Owners are functions by their full names, and queues by their constructs: `orders/Isolation`.
    The depth of a queue has an entry where it has changed.
    """
    series: Series = defaultdict(lambda: defaultdict(list))
    began = time.time()
    sqs, urls = shop.aws.client("sqs"), _queues(shop)

    def sample(over: Event) -> None:
        while not over.wait(1):
            second = round(time.time() - began)
            for owner, url in urls.items():
                found = depth(sqs, url)
                shown = {_VISIBLE: found.visible, _HIDDEN: found.in_flight + found.delayed}
                for metric, figure in shown.items():
                    known = series[owner][metric]
                    if figure != (known[-1][1] if known else 0):
                        known.append([second, figure])

    with background("metrics", sample):
        yield
    seconds = round(time.time() - began)
    series |= figures_of_lines(_log_lines(shop), began)
    # A line for each metric: a whole entry in each would be hundreds, and one in all unreadable.
    lines = [
        f'  "{owner} {metric}": {json.dumps(entries, separators=(",", ":"))}'
        for owner in sorted(series)
        for metric, entries in sorted(series[owner].items())
        if entries
    ]
    REPORTS.mkdir(exist_ok=True)
    text = ",\n".join([f'  "seconds": {seconds}', *lines])
    (REPORTS / f"{name}.json").write_text(f"{{\n{text}\n}}\n")


def _queues(shop: Shop) -> dict[str, str]:
    found: dict[str, str | None] = {}
    for name, consumer in shop.deployment.consumers.items():
        found[f"{name}/Queue"] = consumer.queue_url
        found[f"{name}/Isolation"] = consumer.isolation_queue_url
        found[f"{name}/DeadLetters"] = consumer.dead_letter_url
    found[f"{RELAY}/DeadLetters"] = shop.deployment.relay_dead_letter_url
    found[f"{UNROUTED}/Queue"] = shop.deployment.unrouted_queue_url
    found[f"{UNROUTED}/Sweep"] = shop.deployment.sweep_queue_url
    return {owner: url for owner, url in found.items() if url is not None}


def _log_lines(shop: Shop) -> Iterator[tuple[str, float, str]]:
    """Yield function, time in seconds and text of every log line."""
    logs = shop.aws.client("logs")
    for group in logs.describe_log_groups()["logGroups"]:
        path = group["logGroupName"]
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=path):
            for event in page["events"]:
                yield path.rpartition("/")[2], event["timestamp"] / 1000, event["message"]


def figures_of_lines(lines: Iterable[tuple[str, float, str]], began: float) -> Series:
    """Return the figures in log lines, and how many invocations they begin and end by a death."""
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for function, time_of_line, text in lines:
        second = round(time_of_line - began)
        for begin, metric in _COUNTED.items():
            if text.startswith(begin):
                entry = found[function, metric, second]
                entry[:] = [sum(entry) + 1]
        if '"_aws"' in text:
            for emitted, figures in _emitted(json.loads(text[text.index("{") :])):
                found[*emitted, second] += figures
    series: Series = defaultdict(lambda: defaultdict(list))
    for (owner, name, second), figures in sorted(found.items()):
        series[owner][name].append([second, *figures])
    return series


def _emitted(line: dict[str, Any]) -> Iterator[tuple[tuple[str, str], list[float]]]:
    """Yield the figures of an EMF line whose only dimension is the service."""
    for each in line["_aws"]["CloudWatchMetrics"]:
        if each["Namespace"] == Metric.NAMESPACE and each["Dimensions"] == [["service"]]:
            for metric in each["Metrics"]:
                figures = line[metric["Name"]]
                found = figures if isinstance(figures, list) else [figures]
                yield (line["service"], metric["Name"]), [round(one, 1) for one in found]
