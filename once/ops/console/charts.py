"""Geometry of small bar charts, which templates draw as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 160, 32
"""Size of a chart, in units of its view box."""

_GAP = 1.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar; x and y are those of its upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class BarChart:
    """A chart of values at equal distances, the oldest first.

    Attributes:
        values: the values, 0 or more; None where there is no figure.
        label: says in words what it shows, for those who do not see it.
    """

    values: Sequence[float | None]
    label: str

    @property
    def most(self) -> float:
        """The largest value; 0 without one."""
        return max((value for value in self.values if value is not None), default=0)

    @property
    def bars(self) -> list[Bar]:
        """A bar for each value over 0; the largest is as high as the chart."""
        step = WIDTH / max(1, len(self.values))
        return [
            _bar(position * step, step, value / self.most)
            for position, value in enumerate(self.values)
            if value
        ]


def _bar(x: float, step: float, share: float) -> Bar:
    height = max(1.0, HEIGHT * share)  # what is small stays visible
    return Bar(round(x, 2), round(HEIGHT - height, 2), round(step - _GAP, 2), round(height, 2))
