"""Rows of the report: medians of samples, and of ratios within each repeat."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from benchmarks.contenders import POWERTOOLS, RAW
from benchmarks.matrix import Setting
from benchmarks.measure import Sample, Samples

EMBEDDED = "embedded"
"""The `delay_ms` of end-to-end rows."""

NOT_COMPARED = (
    *("vs_raw", "vs_powertools"),
    *("cpu_vs_raw", "requests_vs_raw", "write_units_vs_raw"),
)
"""Keys of the ratios to other ways to handle a batch, which rows of webhooks do not have."""

_USUAL: dict[str, Any] = {
    "records": 10,
    "delay_ms": 5,
    "duplicates": 0.0,
    "conflicts": 0.0,
    "redelivered": False,
}

Row = dict[str, Any]
"""One line of the report: a contender in a setting. Figures are for one message."""


def rows_of(setting: Setting, samples: Samples) -> list[Row]:
    """Return the rows of a setting, one for each contender."""
    return [
        {
            "contender": name,
            **{field: getattr(setting, field) for field in _USUAL},
            "repeats": len(own),
            **_figures(own),
            **_ratios(own, samples),
        }
        for name, own in samples.items()
    ]


def _figures(samples: Sequence[Sample]) -> dict[str, float]:
    return {
        "wall_us": round(median(s.wall_us for s in samples), 1),
        "cpu_us": round(median(s.cpu_us for s in samples), 1),
        "requests": round(median(s.requests for s in samples), 4),
        "write_units": round(median(s.write_units for s in samples), 4),
        "write_units_least": round(median(s.write_units_least for s in samples), 4),
        "read_units": round(median(s.read_units for s in samples), 4),
    }


def _ratios(own: Sequence[Sample], samples: Samples) -> dict[str, float | None]:
    raw, powertools = samples.get(RAW), samples.get(POWERTOOLS)
    return {
        "vs_raw": _ratio(own, raw, lambda s: s.wall_us),
        "vs_powertools": _ratio(own, powertools, lambda s: s.wall_us),
        "cpu_vs_raw": _ratio(own, raw, lambda s: s.cpu_us),
        "requests_vs_raw": _ratio(own, raw, lambda s: s.requests),
        "write_units_vs_raw": _ratio(own, raw, lambda s: s.write_units),
    }


def _ratio(
    own: Sequence[Sample], others: Sequence[Sample] | None, figure: Callable[[Sample], float]
) -> float | None:
    """Return the median of the ratios, each within one repeat; not the ratio of the medians."""
    if others is None:
        return None
    pairs = zip(own, others, strict=True)
    return round(median(figure(mine) / figure(theirs) for mine, theirs in pairs), 3)


def select(rows: Sequence[Row], **setting: Any) -> list[Row]:
    """Return the rows of a setting; the default is ten records, 5 ms and no faults."""
    wanted = _USUAL | setting
    return [row for row in rows if all(row[field] == value for field, value in wanted.items())]


def title_of(row: Row) -> str:
    """Return the setting of a row as text."""
    if row["delay_ms"] == EMBEDDED:
        return f"{row['records']} records, embedded"
    return str(Setting(**{name: row[name] for name in _USUAL}))
