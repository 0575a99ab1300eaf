"""Rows of the report, and the measuring side by side that they come from.

A row is a contender in a setting, with figures for one message. Ratios are taken within a repeat.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any, TypeVar

EMBEDDED = "embedded"
"""The `delay_ms` of end-to-end rows."""

FIGURES = (
    *("wall_us", "cpu_us", "requests", "write_units", "write_units_least", "read_units"),
    *("vs_raw", "vs_powertools", "cpu_vs_raw", "requests_vs_raw", "write_units_vs_raw"),
)
"""Keys of every row beside those of its setting. A figure that was not measured is None."""

USUAL: dict[str, Any] = {
    "records": 10,
    "delay_ms": 5,
    "duplicates": 0.0,
    "conflicts": 0.0,
    "redelivered": False,
}
"""The default setting: ten records a batch, 5 ms an answer and no faults."""

Row = dict[str, Any]

_Sample = TypeVar("_Sample")


def side_by_side(
    names: Sequence[str], repeats: int, take: Callable[[str, int], _Sample]
) -> dict[str, list[_Sample]]:
    """Take a sample of each contender in each repeat, and return them by contender.

    Each repeat begins with another contender, so that other load on the machine affects all.
    """
    samples: dict[str, list[_Sample]] = {name: [] for name in names}
    for repeat in range(repeats):
        first = repeat % len(names)
        for name in (*names[first:], *names[:first]):
            samples[name].append(take(name, repeat))
    return samples


def timed(work: Callable[[], _Sample]) -> tuple[_Sample, float, float]:
    """Return the result of a call, and its wall and CPU time in microseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return result, wall * 1e6, cpu * 1e6


def row_of(contender: str, repeats: int, **more: Any) -> Row:
    """Return a row of the default setting and of no figures, but for those that are given."""
    setting = {"contender": contender, **USUAL, "repeats": repeats}
    return {**setting, **dict.fromkeys(FIGURES), **more}


def middle(values: Iterable[float], digits: int = 1) -> float:
    """Return the median."""
    return round(median(values), digits)


def ratio(
    own: Sequence[_Sample],
    others: Sequence[_Sample] | None,
    figure: Callable[[_Sample], float | None],
    digits: int = 3,
) -> float | None:
    """Return the median of the ratios, each within one repeat; not the ratio of the medians.

    None if a sample has no such figure, or if there are no others.
    """
    if others is None:
        return None
    pairs = [(figure(mine), figure(theirs)) for mine, theirs in zip(own, others, strict=True)]
    ratios = [mine / theirs for mine, theirs in pairs if mine is not None and theirs is not None]
    return middle(ratios, digits) if len(ratios) == len(pairs) else None


def select(rows: Sequence[Row], **setting: Any) -> list[Row]:
    """Return the rows of a setting; what is not given is as in the default one.

    Rows of a `kind` of their own, such as those of effects, are found by naming it.
    """
    wanted = (USUAL | setting).items()
    return [row for row in rows if wanted <= row.items() and row.get("kind") == setting.get("kind")]
