"""Rows of the report for webhooks: one for each function, kind of request and setting.

They have the keys of the other rows. Further ones are `request` (the kind), `p99_us`, `vs_put` and
`cpu_vs_put` (medians of the ratios within each pair) and `cpu_vs_genuine`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import median, quantiles
from typing import Any

from benchmarks.rows import NOT_COMPARED, Row
from benchmarks.webhooks.functions import PUT
from benchmarks.webhooks.measure import Timing, WebhookSample
from benchmarks.webhooks.requests import Kind

_COUNTED = ("requests", "write_units", "write_units_least", "read_units")


def webhook_rows(samples: Sequence[WebhookSample]) -> list[Row]:
    """Return a row for each sample; the samples are those of both functions with one delay."""
    by_name = {(each.function, each.kind): each.timings for each in samples}
    return [_row(sample, by_name) for sample in samples]


def _row(sample: WebhookSample, timings: dict[tuple[str, Kind], Sequence[Timing]]) -> Row:
    own, put = sample.timings, timings[PUT, sample.kind]
    genuine = timings[sample.function, Kind.GENUINE]
    counts = None if sample.counts is None else asdict(sample.counts)
    return {
        "contender": sample.function,
        "request": str(sample.kind),
        "records": 1,
        "delay_ms": sample.delay_ms,
        "duplicates": float(sample.kind is Kind.DUPLICATE),
        "conflicts": 0.0,
        "redelivered": False,
        "repeats": len(own),
        **_figures(own),
        **{name: None if counts is None else counts[name] for name in _COUNTED},
        **dict.fromkeys(NOT_COMPARED),
        "vs_put": _ratio(own, put, "wall_us"),
        "cpu_vs_put": _ratio(own, put, "cpu_us"),
        "cpu_vs_genuine": _ratio(own, genuine, "cpu_us"),
    }


def _figures(timings: Sequence[Timing]) -> dict[str, float | None]:
    walls = [each.wall_us for each in timings]
    cpus = [each.cpu_us for each in timings if each.cpu_us is not None]
    return {
        "wall_us": round(median(walls), 1),
        "p99_us": round(quantiles(walls, n=100, method="inclusive")[-1], 1),
        "cpu_us": round(median(cpus), 1) if cpus else None,
    }


def _ratio(own: Sequence[Timing], others: Sequence[Timing], field: str) -> float | None:
    """Return the median of the ratios, each within one pair; None if there is no such figure."""
    pairs = zip(own, others, strict=True)
    figures = [(getattr(mine, field), getattr(theirs, field)) for mine, theirs in pairs]
    if any(None in pair for pair in figures):
        return None
    return round(float(median(mine / theirs for mine, theirs in figures)), 3)


def webhook_title(row: Row) -> str:
    """Return the setting of a row as text: the kind of request, and the time of an answer."""
    delay = row["delay_ms"]
    return f"{row['request']}, {delay if isinstance(delay, str) else f'{delay} ms'}"


def webhooks_in(rows: Sequence[Row], **wanted: Any) -> Iterator[Row]:
    """Yield the rows of webhooks that have these values."""
    for row in rows:
        if "request" in row and wanted.items() <= row.items():
            yield row
