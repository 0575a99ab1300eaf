"""The metrics that an alarm of a template measures."""

from collections.abc import Iterator

from tests.stacks.cloud import Json, flat


def metrics_of(alarm: Json) -> Iterator[Json]:
    """Yield what an alarm measures, as namespace, name and dimensions."""
    if "MetricName" in alarm:
        yield alarm
    yield from (q["MetricStat"]["Metric"] for q in alarm.get("Metrics", []) if "MetricStat" in q)


def watched(metric: Json) -> str:
    (dimension,) = metric["Dimensions"]
    return flat(dimension["Value"])
