"""`make crashpoints`: every fault at every call site, alone and in pairs."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from proof import report
from proof.crashpoints.exploration import HOW_PAIRS_ARE_CHOSEN, Part, Tally, explore, parts
from proof.crashpoints.scenarios import SCENARIOS
from proof.crashpoints.sites import EXPLORED, LEFT_OUT, unlisted_in_runs, unlisted_in_source
from proof.crashpoints.source import calls_in_source
from proof.run import RunResult
from proof.workers import workers
from proof.world.faults import Fault, kinds

NAME = "crashpoints"
KINDS = frozenset(set(Fault) - {Fault.HALF, Fault.SAVED_DONE, Fault.SAVED_NOT_DONE})
"""The faults that are not special to one service."""
_QUICK = 1
"""Scenarios of a quick run."""
_MAX_SHOWN = 5
"""Violations that are printed in full: more of them mostly have the same cause."""

console = Console()


def run(processes: int = 2, quick: bool = False) -> int:
    """Explore every crash point, and write `reports/crashpoints.json`.

    Args:
        processes: number of worker processes; 1 works in this process.
        quick: whether to try only the single points of one scenario.

    Returns:
        The exit status: 0 if there is no violation, and every call site was reached.
    """
    began = time.monotonic()
    for file in report.REPORTS.glob(f"{NAME}*.json"):
        file.unlink()  # an interrupted run leaves no report
    work = parts(SCENARIOS[:_QUICK] if quick else SCENARIOS, pairs=not quick)
    tally = Tally()
    with report.progress(console, "single points, and all that follow", len(work)) as advance:
        for part in _explored(work, processes):
            tally.add(part)
            advance(1)
    wrong = unlisted_in_source(calls_in_source())
    wrong += [f"{kind} never took place" for kind in sorted(KINDS - tally.kinds.keys())]
    wrong += [] if quick else unlisted_in_runs(tally.places)
    return _conclude(tally, wrong, time.monotonic() - began)


def _explored(work: Sequence[Part], processes: int) -> Iterator[Tally]:
    if processes == 1:
        yield from map(explore, work)
        return
    with workers(processes) as pool:
        yield from pool.map(explore, work)


def _figures(tally: Tally, seconds: float) -> dict[str, Any]:
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


def _not_possible() -> dict[str, list[str]]:
    """Return the kinds of fault that are not possible at a call site."""
    found = {}
    for place in EXPLORED:
        service, _, operation = place.partition(" ")[2].partition(".")
        found[place] = sorted(map(str, KINDS - kinds(service, operation)))
    return {place: missing for place, missing in found.items() if missing}


def _conclude(tally: Tally, wrong: Sequence[str], seconds: float) -> int:
    for number, (scenario, result) in enumerate(tally.broken[:_MAX_SHOWN], start=1):
        _print(number, scenario, result)
    for line in wrong:
        console.print(f"[red]{escape(line)}", soft_wrap=True)
    found = _figures(tally, seconds)
    report.write(NAME, found)
    console.print(
        f"{found['sites']} call sites, {found['points']} points ({found['singles']} single, "
        f"{found['pairs']} in pairs), {found['violations']} violations, {seconds:.0f} s",
        highlight=False,
    )
    return int(bool(tally.broken or wrong))


def _print(number: int, scenario: str, result: RunResult) -> None:
    file = report.write(f"{NAME}-violation-{number}", result.replay.as_json())
    told = escape(f"in: {scenario}\n{result.describe(len(result.log))}")
    console.print(f"[red]{escape(str(result.violation))}[/]\n{told}", soft_wrap=True)
    console.print(f"  again: make sim REPLAY={file.relative_to(report.REPORTS.parent)}")
