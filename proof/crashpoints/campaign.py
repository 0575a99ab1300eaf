"""`make crashpoints`: every call site times every kind of fault, alone and in pairs."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from proof import report
from proof.crashpoints.exploration import HOW_PAIRS_ARE_CHOSEN, Part, explore, parts
from proof.crashpoints.scenarios import SCENARIOS
from proof.crashpoints.sites import EXPLORED, LEFT_OUT, unlisted_in_runs, unlisted_in_source
from proof.crashpoints.source import calls_in_source
from proof.crashpoints.tally import Broken, Tally
from proof.workers import workers
from proof.world.faults import Fault, kinds

NAME = "crashpoints"
KINDS = frozenset(set(Fault) - {Fault.HALF, Fault.SAVED_DONE, Fault.SAVED_NOT_DONE})
"""What is tried wherever it can happen; the others are ways of one service alone."""
_QUICK = 1
"""So many scenarios are enough for a first look."""
_TOLD = 5
"""So many violations are told in full: more of them mostly have the same cause."""

console = Console()


def run(processes: int = 2, quick: bool = False) -> int:
    """Explore every crash point, and write `reports/crashpoints.json`.

    Args:
        processes: how many work side by side; 1 works in this one.
        quick: the single points of one scenario only.

    Returns:
        The exit status: 0 where no promise was broken, and every call site was come to.
    """
    began = time.monotonic()
    _forget()
    scenarios = SCENARIOS[:_QUICK] if quick else SCENARIOS
    work = parts(scenarios, pairs=not quick)
    tally = Tally()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("single points, and all that follow", total=len(work))
        for part in _explored(work, processes):
            tally.add(part)
            progress.advance(task)
    wrong = unlisted_in_source(calls_in_source()) + _never(tally)
    wrong += [] if quick else unlisted_in_runs(tally.places)
    return _conclude(tally, wrong, time.monotonic() - began)


def figures(tally: Tally, seconds: float) -> dict[str, Any]:
    """Return what stands in the report."""
    return {
        "sites": len(tally.places),
        "points": tally.points.total(),
        "singles": tally.points[1],
        "pairs": tally.points[2],
        "violations": len(tally.broken),
        "in_vain": tally.in_vain,
        "kinds": dict(sorted(tally.kinds.items())),
        "scenarios": dict(tally.scenarios),
        "pairs_are": HOW_PAIRS_ARE_CHOSEN,
        "never_in_pairs": [scenario.name for scenario in SCENARIOS if not scenario.in_pairs],
        "not_possible": _not_possible(),
        "left_out": LEFT_OUT,
        "seconds": round(seconds, 1),
    }


def _explored(work: Sequence[Part], processes: int) -> Iterator[Tally]:
    if processes == 1:
        yield from map(explore, work)
        return
    with workers(processes) as pool:
        yield from pool.map(explore, work)


def _forget() -> None:
    """An earlier run's report must not stand for a run that is broken off."""
    for file in report.REPORTS.glob(f"{NAME}*.json"):
        file.unlink()


def _never(tally: Tally) -> list[str]:
    return [f"{kind} never took place" for kind in sorted(KINDS - tally.kinds.keys())]


def _not_possible() -> dict[str, list[str]]:
    """The kinds that a service cannot show, by call site."""
    found = {place: sorted(map(str, KINDS - kinds(*_called(place)))) for place in EXPLORED}
    return {place: missing for place, missing in found.items() if missing}


def _called(place: str) -> tuple[str, str]:
    service, _, operation = place.partition(" ")[2].partition(".")
    return service, operation


def _conclude(tally: Tally, wrong: Sequence[str], seconds: float) -> int:
    for number, broken in enumerate(tally.broken[:_TOLD], start=1):
        _tell(number, broken)
    for line in wrong:
        console.print(f"[red]{escape(line)}", soft_wrap=True)
    found = figures(tally, seconds)
    report.write(NAME, found)
    console.print(
        f"{found['sites']} call sites, {found['points']} points ({found['singles']} single, "
        f"{found['pairs']} in pairs), {found['violations']} violations, {seconds:.0f} s",
        highlight=False,
    )
    return int(bool(tally.broken or wrong))


def _tell(number: int, broken: Broken) -> None:
    file = report.write(f"{NAME}-violation-{number}", broken.replay)
    lines = [f"[red]{escape(broken.violation)}[/]", f"  in: {broken.scenario}"]
    lines += [f"  {escape(line)}" for line in (*broken.actions, *broken.log)]
    console.print("\n".join(lines), soft_wrap=True, highlight=False)
    console.print(f"  again: make sim REPLAY={file.relative_to(report.REPORTS.parent)}")
