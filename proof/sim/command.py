"""`make sim`: scopes explored, the real code run by seeds, broken protocols caught."""

import json
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from proof.explore.command import show as show_scopes
from proof.report import REPORTS, write
from proof.shop.course import Course, Replay, play
from proof.sim.evidence import Evidence, gathered
from proof.sim.shrink import shrunk
from proof.world.faults import Fault
from proof.world.plan import Mishap

_FIRST_SEEDS = 1 << 32
_SHOWN = 3
_LAST_LINES = 80

console = Console()


def run(seeds: int, first: int | None, processes: int) -> int:
    """Explore, run seeds, catch broken protocols, and write `reports/sim.json`.

    Args:
        seeds: how many.
        first: the first of them; by chance without one.
        processes: how many work at the same time.

    Returns:
        The exit status: 0 if no promise was broken, every scope was explored to the end within its
        bounds, every broken protocol was caught, and every kind of fault took place.
    """
    began = time.monotonic()
    first = secrets.randbelow(_FIRST_SEEDS) if first is None else first
    console.print(f"seeds {first} to {first + seeds - 1}, and the scopes", highlight=False)
    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("seeds", total=seeds)
        evidence = gathered(
            range(first, first + seeds), processes, lambda count: bar.advance(task, count)
        )
    figures = _figures(evidence)
    _show(evidence, figures)
    write("sim", {**figures, "first_seed": first, "seconds": round(time.monotonic() - began, 1)})
    shown_too_little = evidence.missed or _never(evidence) or evidence.campaign.unfinished
    return int(bool(figures["violations"] or shown_too_little))


def replay(file: Path) -> int:
    """Run what a file says, and print its course.

    Returns:
        The exit status: 1 if a promise is broken.

    Raises:
        OSError, ValueError: the file cannot be read, or holds no run.
    """
    course = play(Replay.read(file))
    _print_course(course)
    return int(course.violation is not None)


def _figures(evidence: Evidence) -> dict[str, Any]:
    campaign = evidence.campaign
    return {
        **campaign.figures(),
        "seeds": evidence.found.seeds,
        "calls": evidence.found.calls,
        "faults_by_kind": _plain(evidence.found.fired),
        "violations": len(evidence.found.courses) + len(campaign.found),
        "mutants": evidence.mutants,
        "mutants_caught": evidence.mutants - len(evidence.missed),
    }


def _plain(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(kind): number for kind, number in sorted(counts.items())}


def _never(evidence: Evidence) -> list[str]:
    """The kinds of fault that never took place: nothing would be known of them."""
    missing = {*map(str, (*Fault, *Mishap))} - {*map(str, evidence.found.fired)}
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
    for course in evidence.found.courses:
        console.print(f"[red]seed {course.replay.seed}:[/] {course.violation}", highlight=False)
    for course in evidence.found.courses[:_SHOWN]:
        _print_failure(course)


def _print_failure(course: Course) -> None:
    """Shrink a run, and write it where it can be replayed from."""
    assert course.violation is not None  # noqa: S101
    smallest = play(shrunk(course.replay, course.violation.oracle))
    file = REPORTS / f"sim-{course.replay.seed}.json"
    REPORTS.mkdir(exist_ok=True)
    file.write_text(json.dumps(smallest.replay.as_json(), indent=2) + "\n")
    _print_course(smallest)
    console.print(f"again: make sim REPLAY={file}", highlight=False, soft_wrap=True)


def _print_course(course: Course) -> None:
    lines = [f"seed {course.replay.seed}: {course.replay.traffic}"]
    lines += [f"  {action}" for action in course.replay.actions]
    lines += ["the last calls:", *course.log[-_LAST_LINES:]]
    lines += [f"broken: {course.violation}" if course.violation else "nothing is broken"]
    console.print(*lines, sep="\n", markup=False, highlight=False, soft_wrap=True)
