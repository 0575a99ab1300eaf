"""`make crashpoints`: a run for each point of each case, and for each pair of points.

A point is a fault at one call of a case.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from proof import report
from proof.crashpoints.cases import CASES, Case
from proof.crashpoints.sites import (
    EXPLORED,
    LEFT_OUT,
    calls_in_source,
    unlisted_in_runs,
    unlisted_in_source,
)
from proof.run import RunResult
from proof.workers import Part, Tell, run_parts, untold
from proof.world.faults import Action, Fault, InjectionPoint, kinds

NAME = "crashpoints"
KINDS = frozenset(set(Fault) - {Fault.HALF, Fault.SAVED_DONE, Fault.SAVED_NOT_DONE})
"""The faults that are not special to one service."""
LATE_SECONDS = (2.0, 60.0)
"""Delays of a late call: while its caller still looks it up, and after that."""
HOW_PAIRS_ARE_CHOSEN = (
    "first: every kind at the first call of each place of a scenario without a fault "
    "there; second: every kind at the next call of each place that the run with the first reaches"
)
_MAX_SHOWN = 5
"""Violations that are printed in full: more of them mostly have the same cause."""

console = Console(markup=False, highlight=False, soft_wrap=True)


@dataclass(slots=True)
class Tally:
    """Figures of a number of runs.

    Attributes:
        points: runs in which every point took effect, by their number of points.
        in_vain: runs in which a point did not; they count for nothing.
        broken: runs that violate a clause, with their case's name.
    """

    points: Counter[int] = field(default_factory=Counter)
    in_vain: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    places: set[str] = field(default_factory=set)
    broken: list[tuple[str, RunResult]] = field(default_factory=list)

    def count(self, case: Case, points: Sequence[Action], result: RunResult) -> None:
        """Count a run."""
        self.places |= {point.place for point in result.reached}
        if result.violation is not None:
            self.broken.append((case.name, result))
        if not {*points} <= {*result.replay.actions}:
            self.in_vain += 1
            return
        self.points[len(points)] += 1
        self.kinds.update(str(point.what) for point in points)
        self.cases[case.name] += 1

    def add(self, other: "Tally") -> None:
        """Add the figures of other runs."""
        self.points += other.points
        self.in_vain += other.in_vain
        self.kinds += other.kinds
        self.cases += other.cases
        self.places |= other.places
        self.broken += other.broken


def run(processes: int = 2, quick: bool = False) -> int:
    """Explore every crash point, and write `reports/crashpoints.json`.

    Args:
        processes: number of worker processes.
        quick: whether to try only the single points of one case, in this process.

    Returns:
        The exit status: 0 if there is no violation, and every call site was reached.
    """
    began = time.monotonic()
    for file in report.REPORTS.glob(f"{NAME}*.json"):
        file.unlink()  # an interrupted run leaves no report
    work, tally = parts(CASES[:1] if quick else CASES, pairs=not quick), Tally()
    results = (part.result() for part in work) if quick else run_parts(work, processes, console)
    for found in results:
        tally.add(found)
    wrong = unlisted_in_source(calls_in_source())
    wrong += [f"{kind} never took place" for kind in sorted(KINDS - tally.kinds.keys())]
    wrong += [] if quick else unlisted_in_runs(tally.places)
    return _conclude(tally, wrong, time.monotonic() - began)


def parts(cases: Sequence[Case], *, pairs: bool) -> list[Part]:
    """Return the parts of the work, each the runs that begin with one point; runs each case."""
    found: list[Part] = []
    for case in cases:
        case.run()  # the first run of a case loads modules and caches
        began = time.process_time()
        alone = case.run()
        seconds = time.process_time() - began
        points = singles(case, alone)
        for point in points:
            in_pairs = pairs and case.in_pairs and begins_pairs(point, points)
            runs = 1 + (sum(1 for _ in second_points(alone, point)) if in_pairs else 0)
            given = (case, point, in_pairs, runs)
            found.append(Part(case.name, "runs", runs, explore, given, seconds))
    return found


def explore(
    case: Case, point: Action, in_pairs: bool, expected: int = 0, tell: Tell = untold
) -> Tally:
    """Execute the runs of a case that begin with one point.

    A fault may lead to more calls than were expected, or to fewer: `tell` is called with the number
    that was expected less the runs that are left.
    """
    tally = Tally()
    alone = case.run([point])
    tally.count(case, [point], alone)
    seconds = [*second_points(alone, point)] if in_pairs else []
    for run, second in enumerate(seconds):
        tell(expected - len(seconds) + run)
        tally.count(case, (point, second), case.run((point, second)))
    return tally


def singles(case: Case, result: RunResult) -> list[Action]:
    """Return every fault at every call of a case that has no fault of its own."""
    taken = {(action.place, action.number) for action in case.actions}
    free = [one for one in result.reached if (one.place, one.number) not in taken]
    return [point for one in free for point in _points_at(one)]


def begins_pairs(point: Action, among: Iterable[Action]) -> bool:
    """Tell whether a point is at the first call of its place, with the shortest delay."""
    first = min(other.number for other in among if other.place == point.place)
    return point.number == first and point.seconds == LATE_SECONDS[0]


def second_points(result: RunResult, first: Action) -> Iterator[Action]:
    """Yield every fault at the next call of each place, after the first point of a run."""
    reached = [(one.place, one.number) for one in result.reached]
    seen: set[str] = set()
    for one in result.reached[reached.index((first.place, first.number)) + 1 :]:
        if one.place not in seen:
            seen.add(one.place)
            yield from _points_at(one, LATE_SECONDS[:1])


def _points_at(call: InjectionPoint, delays: Sequence[float] = LATE_SECONDS) -> list[Action]:
    return [
        Action(call.place, call.number, kind, seconds=delay)
        for kind in sorted(call.possible)
        for delay in (delays if kind == Fault.LATE else delays[:1])
    ]


def _conclude(tally: Tally, wrong: Sequence[str], seconds: float) -> int:
    """Print the violations and the figures, and write the report."""
    for number, (case, result) in enumerate(tally.broken[:_MAX_SHOWN], start=1):
        file = report.write(f"{NAME}-violation-{number}", result.replay.as_json())
        console.print(f"{result.violation}\nin: {case}", style="red")
        console.print(result.describe(len(result.log)))
        console.print(f"  again: make sim REPLAY={file.relative_to(report.REPORTS.parent)}")
    for line in wrong:
        console.print(line, style="red")
    not_possible = {
        place: sorted(map(str, KINDS - kinds(*place.partition(" ")[2].split(".", 1))))
        for place in EXPLORED
    }
    found = {
        "sites": len(tally.places),
        "points": tally.points.total(),
        "singles": tally.points[1],
        "pairs": tally.points[2],
        "violations": len(tally.broken),
        "in_vain": tally.in_vain,
        "kinds": dict(sorted(tally.kinds.items())),
        "scenarios": dict(sorted(tally.cases.items())),
        "pairs_are": HOW_PAIRS_ARE_CHOSEN,
        "never_in_pairs": [case.name for case in CASES if not case.in_pairs],
        "not_possible": {place: missing for place, missing in not_possible.items() if missing},
        "left_out": LEFT_OUT,
        "seconds": round(seconds, 1),
    }
    report.write(NAME, found)
    console.print(
        f"{found['sites']} call sites, {found['points']} points ({found['singles']} single, "
        f"{found['pairs']} in pairs), {found['violations']} violations, {seconds:.0f} s"
    )
    return int(bool(tally.broken or wrong))
