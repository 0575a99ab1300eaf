"""A run of the fuzzers: inputs shared out among processes, a report, and a file for each crash."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from secrets import randbits
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    track,
)

from proof import report
from proof.fuzz import crash
from proof.fuzz.cost import COSTS, MOST, costs, figures
from proof.fuzz.hunt import Haul, hunt
from proof.fuzz.parsers import PARSERS
from proof.workers import workers

NAME = "fuzz"
_STRETCH = 1000
_SEED_BITS = 32

console = Console()


def run(inputs: int, seed: int | None = None, processes: int = 2) -> int:
    """Fuzz every parser, and write `reports/fuzz.json`.

    Args:
        inputs: how many.
        seed: draws the same inputs again; None for others each time.
        processes: how many work side by side; 1 works in this one.

    Returns:
        The exit status: 0 where nothing crashed, and nothing costs much more than a plain body.
    """
    seed = randbits(_SEED_BITS) if seed is None else seed
    console.print(f"seed {seed}")
    _forget()
    began = time.monotonic()
    cost = _cost()
    haul = Haul()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("inputs", total=inputs)
        for stretch in _hauls(inputs, seed, processes):
            haul.add(stretch)
            progress.update(task, advance=stretch.inputs.total())
    return _conclude(haul, cost, seed, time.monotonic() - began)


def replay(file: Path) -> int:
    """Try the input of a crash again, from its file; return 0 where it crashes no more."""
    error = crash.replayed(file, PARSERS)
    console.print(f"{file.name}: {escape(error or 'nothing goes wrong any more')}")
    return 0 if error is None else 1


def _hauls(inputs: int, seed: int, processes: int) -> Iterator[Haul]:
    stretches = [range(at, min(at + _STRETCH, inputs)) for at in range(0, inputs, _STRETCH)]
    work = partial(_work, seed)
    if processes == 1:
        yield from map(work, stretches)
        return
    # A process of its own imports everything anew, and has a main thread for the alarm.
    with workers(processes) as pool:
        yield from pool.map(work, stretches)


def _work(seed: int, numbers: range) -> Haul:
    return hunt(seed, numbers, PARSERS)


def _forget() -> None:
    """An earlier run's report must not stand for a run that is broken off."""
    for file in report.REPORTS.glob(f"{NAME}*.json"):
        file.unlink()


def _cost() -> dict[str, Any]:
    """Measure in this process, before others take the processor."""
    found = list(track(costs(), "cost", total=COSTS, console=console, transient=True))
    for one in found:
        if one.ratio > MOST:
            console.print(
                f"[red]{one.family}, {one.bytes} bytes: {one.ratio} times a plain body[/]"
            )
    return figures(found)


def _conclude(haul: Haul, cost: dict[str, Any], seed: int, seconds: float) -> int:
    for number, found in enumerate(haul.crashes.values(), start=1):
        file = found.write(number)
        console.print(f"[red]{escape(str(found))}[/]\n  kept in {file.name}", soft_wrap=True)
    crashes = haul.failed.total()
    told: dict[str, Any] = {
        "inputs": haul.inputs.total(),
        "crashes": crashes,
        "parsers": {target.name: haul.inputs[target.name] for target in PARSERS},
        **cost,
        "seconds": round(seconds, 1),
        "seed": seed,
    }
    report.write(NAME, told)
    console.print(
        f"{told['inputs']} inputs, {crashes} crashes, slowest {cost['slowest_ratio']} times "
        f"a plain body, {seconds:.0f} s, seed {seed}"
    )
    return 1 if crashes or cost["slowest_ratio"] > MOST else 0
