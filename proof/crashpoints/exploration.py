"""Which runs are made: a point alone, and it together with each that can follow it."""

from collections.abc import Sequence
from dataclasses import dataclass

from proof.crashpoints.points import begins_pairs, seconds, singles
from proof.crashpoints.scenarios import Scenario, follow
from proof.crashpoints.tally import Tally
from proof.world.plan import Action

HOW_PAIRS_ARE_CHOSEN = (
    "first: every kind at the first call of each place of a scenario at which nothing goes wrong "
    "yet; second: every kind at the next call of each place that the run with the first comes to"
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of all runs: those that begin with one point of a scenario."""

    scenario: Scenario
    point: Action
    in_pairs: bool


def parts(scenarios: Sequence[Scenario], *, pairs: bool) -> list[Part]:
    """Return the parts of all runs, for which every scenario is run once.

    Args:
        scenarios: the scenarios.
        pairs: whether faults are tried in twos as well.
    """
    found: list[Part] = []
    for scenario in scenarios:
        points = singles(scenario, follow(scenario))
        found += [
            Part(scenario, point, pairs and scenario.in_pairs and begins_pairs(point, points))
            for point in points
        ]
    return found


def explore(part: Part) -> Tally:
    """Make the runs of a part."""
    tally = Tally()
    alone = follow(part.scenario, [part.point])
    tally.count(part.scenario, [part.point], alone)
    if part.in_pairs:
        for second in seconds(alone, part.point):
            pair = (part.point, second)
            tally.count(part.scenario, pair, follow(part.scenario, pair))
    return tally
