"""Rows of the report, and the measuring side by side that they come from.

A row is a contender in a setting, with figures for one message. Ratios are taken within a repeat.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, TypeVar

EMBEDDED = "embedded"
"""The `delay_ms` of end-to-end rows."""

ONE_COMMAND, ONE_HANDLER = "one_command", "one_handler"
"""Functions whose imports are compared, in `benchmarks/imports`."""

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
Sample = Mapping[str, float]
"""Figures of one message in one repeat. Times are in microseconds."""

_Result = TypeVar("_Result")


def side_by_side(
    names: Iterable[str], repeats: int, take: Callable[[str, int], _Result]
) -> dict[str, list[_Result]]:
    """Take a sample of each contender in each repeat, and return them by contender.

    Each repeat begins with another contender, so that other load on the machine affects all.
    """
    samples: dict[str, list[_Result]] = {name: [] for name in names}
    order = list(samples)
    for repeat in range(repeats):
        first = repeat % len(order)
        for name in (*order[first:], *order[:first]):
            samples[name].append(take(name, repeat))
    return samples


def timed(work: Callable[[], _Result]) -> tuple[_Result, dict[str, float]]:
    """Return the result of a call, and its wall and CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return result, {"wall_us": wall * 1e6, "cpu_us": cpu * 1e6}


def row_of(contender: str, own: Sequence[Sample], *keys: str, **more: Any) -> Row:
    """Return a row of the default setting, with the medians of some figures, and with `more`."""
    setting = {"contender": contender, **USUAL, "repeats": len(own)}
    medians = {key: middle(own, key, digits=1 if key.endswith("_us") else 4) for key in keys}
    return {**setting, **dict.fromkeys(FIGURES), **medians, **more}


def middle(own: Sequence[Sample], key: str, digits: int) -> float:
    """Return the median of a figure."""
    return round(median(each[key] for each in own), digits)


def ratio(
    own: Sequence[Sample], others: Sequence[Sample] | None, key: str, digits: int = 3
) -> float | None:
    """Return the median of the ratios, each within one repeat; None without a figure of both."""
    if others is None or key not in own[0] or key not in others[0]:
        return None
    pairs = zip(own, others, strict=True)
    return round(median(mine[key] / theirs[key] for mine, theirs in pairs), digits)


def select(rows: Sequence[Row], **setting: Any) -> list[Row]:
    """Return the rows of a setting; what is not given is as in the default one.

    Rows of a `kind` of their own, such as those of effects, are found by naming it.
    """
    wanted = (USUAL | setting).items()
    return [row for row in rows if wanted <= row.items() and row.get("kind") == setting.get("kind")]
