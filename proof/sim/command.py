"""`make sim`: exploration of scopes, random runs, and broken protocols."""

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from proof import report
from proof.explore.command import show as show_scopes
from proof.replays import repeat
from proof.shop.replay import Replay, RunResult
from proof.sim.search import Evidence, count_parts, search
from proof.sim.shrink import shrunk
from proof.world.faults import Fault
from proof.world.plan import PlatformFault

_FIRST_SEEDS = 1 << 32
_MAX_SHOWN = 3
_LAST_CALLS = 80

console = Console()


def run(seeds: int, first: int | None, processes: int) -> int:
    """Explore, run seeds, catch broken protocols, and write `reports/sim.json`.

    Args:
        seeds: number of seeds.
        first: the first seed; random by default.
        processes: number of worker processes.

    Returns:
        The exit status: 0 if there is no violation, every scope was explored to the end within its
        bounds, every broken protocol was caught, and every kind of fault occurred.
    """
    began = time.monotonic()
    first = secrets.randbelow(_FIRST_SEEDS) if first is None else first
    console.print(f"seeds {first} to {first + seeds - 1}, and the scopes", highlight=False)
    drawn = range(first, first + seeds)
    with report.progress(console, "parts of the work", count_parts(drawn)) as advance:
        evidence = search(drawn, processes, advance)
    figures = _figures(evidence)
    _show(evidence, figures)
    seconds = round(time.monotonic() - began, 1)
    report.write("sim", {**figures, "first_seed": first, "seconds": seconds})
    incomplete = evidence.missed or _never(evidence) or evidence.campaign.unfinished
    return int(bool(figures["violations"] or incomplete))


def replay(file: Path) -> int:
    """Repeat the run of a replay file, and print it.

    Returns:
        The exit status: 1 if an oracle is violated.

    Raises:
        OSError, ValueError: the file cannot be read, or is no replay file.
    """
    result = repeat(Replay.read(file))
    _print(result)
    return int(result.violation is not None)


def _figures(evidence: Evidence) -> dict[str, Any]:
    campaign, seeds = evidence.campaign, evidence.seeds
    return {
        **campaign.figures(),
        "seeds": seeds.seeds,
        "calls": seeds.calls,
        "faults_by_kind": {str(kind): number for kind, number in sorted(seeds.fired.items())},
        "violations": len(seeds.violations) + len(campaign.found),
        "mutants": len(evidence.caught),
        "mutants_caught": len(evidence.caught) - len(evidence.missed),
    }


def _never(evidence: Evidence) -> list[str]:
    """Return the kinds of fault that did not occur."""
    missing = {*map(str, (*Fault, *PlatformFault))} - {*map(str, evidence.seeds.fired)}
    return sorted({*missing, *evidence.campaign.never})


def _show(evidence: Evidence, figures: Mapping[str, Any]) -> None:
    table = Table("simulator", show_header=True)
    table.add_column("number", justify="right")
    for name, number in figures.items():
        if isinstance(number, int):
            table.add_row(name.replace("_", " "), f"{number:,}")
    for kind, number in figures["faults_by_kind"].items():
        table.add_row(f"  {kind}", f"{number:,}")
    console.print(table)
    show_scopes(evidence.campaign)
    for name in evidence.missed:
        console.print(f"[red]not caught:[/] {name}")
    for kind in _never(evidence):
        console.print(f"[red]never took place:[/] {kind}")
    for result in evidence.seeds.violations:
        console.print(f"[red]seed {result.replay.seed}:[/] {result.violation}", highlight=False)
    for result in evidence.seeds.violations[:_MAX_SHOWN]:
        _print_shrunk(result)


def _print_shrunk(result: RunResult) -> None:
    """Shrink a run that violates an oracle, save it for replay, and print it."""
    assert result.violation is not None  # noqa: S101
    smallest = repeat(shrunk(result.replay, result.violation.oracle))
    file = report.write(f"sim-{result.replay.seed}", smallest.replay.as_json())
    _print(smallest)
    console.print(f"again: make sim REPLAY={file}", highlight=False, soft_wrap=True)


def _print(result: RunResult) -> None:
    console.print(result.describe(_LAST_CALLS), markup=False, highlight=False, soft_wrap=True)
