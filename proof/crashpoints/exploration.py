"""The runs of the crash points: one for each point, and one for each pair of points.

A point is a fault at one call of a scenario.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from proof.crashpoints.scenarios import Scenario
from proof.run import RunResult
from proof.world.faults import Action, Fault, InjectionPoint

LATE_SECONDS = (2.0, 60.0)
"""Delays of a late call: while its caller still looks it up, and after that."""
HOW_PAIRS_ARE_CHOSEN = (
    "first: every kind at the first call of each place of a scenario without a fault "
    "there; second: every kind at the next call of each place that the run with the first reaches"
)


@dataclass(frozen=True, slots=True)
class Part:
    """The runs that begin with one point of a scenario."""

    scenario: Scenario
    point: Action
    in_pairs: bool


@dataclass(slots=True)
class Tally:
    """Figures of a number of runs.

    Attributes:
        points: runs in which every point took effect, by their number of points.
        in_vain: runs in which a point did not; they count for nothing.
        kinds: number of points by kind of fault.
        scenarios: counted runs by scenario.
        places: every call site that was reached.
        broken: runs that violate an oracle, with their scenario's name.
    """

    points: Counter[int] = field(default_factory=Counter)
    in_vain: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    scenarios: Counter[str] = field(default_factory=Counter)
    places: set[str] = field(default_factory=set)
    broken: list[tuple[str, RunResult]] = field(default_factory=list)

    def count(self, scenario: Scenario, points: Sequence[Action], result: RunResult) -> None:
        """Count a run."""
        self.places |= {point.place for point in result.reached}
        if result.violation is not None:
            self.broken.append((scenario.name, result))
        if not {*points} <= {*result.replay.actions}:
            self.in_vain += 1
            return
        self.points[len(points)] += 1
        self.kinds.update(str(point.what) for point in points)
        self.scenarios[scenario.name] += 1

    def add(self, other: "Tally") -> None:
        """Add the figures of other runs."""
        self.points += other.points
        self.in_vain += other.in_vain
        self.kinds += other.kinds
        self.scenarios += other.scenarios
        self.places |= other.places
        self.broken += other.broken


def parts(scenarios: Sequence[Scenario], *, pairs: bool) -> list[Part]:
    """Return the parts of the exploration; runs each scenario once.

    Args:
        scenarios: the scenarios.
        pairs: whether to try pairs of faults as well.
    """
    found: list[Part] = []
    for scenario in scenarios:
        points = singles(scenario, scenario.run())
        found += [
            Part(scenario, point, pairs and scenario.in_pairs and begins_pairs(point, points))
            for point in points
        ]
    return found


def explore(part: Part) -> Tally:
    """Execute the runs of a part."""
    tally = Tally()
    alone = part.scenario.run([part.point])
    tally.count(part.scenario, [part.point], alone)
    for second in seconds(alone, part.point) if part.in_pairs else ():
        pair = (part.point, second)
        tally.count(part.scenario, pair, part.scenario.run(pair))
    return tally


def singles(scenario: Scenario, result: RunResult) -> list[Action]:
    """Return every fault at every call of a scenario that has no fault of its own."""
    taken = {(action.place, action.number) for action in scenario.actions}
    free = [one for one in result.reached if (one.place, one.number) not in taken]
    return [point for one in free for point in _points_at(one)]


def begins_pairs(point: Action, among: Iterable[Action]) -> bool:
    """Tell whether a point is at the first call of its place, with the shortest delay."""
    first = min(other.number for other in among if other.place == point.place)
    return point.number == first and point.seconds == LATE_SECONDS[0]


def seconds(result: RunResult, first: Action) -> Iterator[Action]:
    """Yield every fault at the next call of each place after a first point.

    Args:
        result: the scenario's run with the first point.
        first: that point.
    """
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
