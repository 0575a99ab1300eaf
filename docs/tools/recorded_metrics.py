"""Metrics that a run of the demo has recorded, in the periods of CloudWatch.

The demo shortens the delays between two attempts from minutes to seconds. So each second of its
run is taken as a minute: an outage of four minutes is one of four hours.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, Self

FASTER = 60
"""Seconds that a recorded second stands for."""
_SAMPLED = "ApproximateNumberOfMessages"
"""Begin of the metrics that last until the next entry; others are of their second alone."""


class Recording(NamedTuple):
    """Figures of a run: by owner and metric, a second and the figures in it; and its length."""

    seconds: int
    series: Mapping[str, Sequence[Sequence[float]]]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what the demo has written as `reports/outage-metrics.json`."""
        found = json.loads(path.read_text())
        return cls(found.pop("seconds"), found)

    def periods(self, period: int) -> int:
        """Return the number of periods of so many seconds, the last one perhaps not complete."""
        return -(-self.seconds * FASTER // period)

    def figures(self, owner: str, metric: str, stat: str, period: int) -> list[float | None]:
        """Return a statistic of a metric in each period; None without data."""
        entries = self.series.get(f"{owner} {metric}", [])
        found: list[list[float]] = [[] for _ in range(self.periods(period))]
        for second, *figures in entries:
            found[min(int(second * FASTER // period), len(found) - 1)] += figures
        if metric.startswith(_SAMPLED) and entries:
            last: list[float] = []
            for number, figures in enumerate(found):
                found[number] = [*last, *figures]
                last = found[number][-1:]
        return [_statistic(stat, figures) if figures else None for figures in found]


def _statistic(stat: str, figures: list[float]) -> float:
    match stat:
        case "Sum":
            return sum(figures)
        case "Maximum":
            return max(figures)
        case "Minimum":
            return min(figures)
        case "Average":
            return fmean(figures)
    share = float(stat.removeprefix("p")) / 100
    return sorted(figures)[round(share * (len(figures) - 1))]
