"""What runs came to, added up."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proof.crashpoints.scenarios import Scenario
from proof.shop.course import Course
from proof.world.plan import Action


@dataclass(frozen=True, slots=True)
class Broken:
    """A run that broke a promise.

    Attributes:
        scenario: its name.
        actions: what went wrong, a line each.
        violation: what was broken.
        log: what took place, a line for each call.
        replay: the run, as `make sim REPLAY=file` takes it.
    """

    scenario: str
    actions: list[str]
    violation: str
    log: list[str]
    replay: dict[str, Any]

    @classmethod
    def of(cls, scenario: Scenario, points: Sequence[Action], course: Course) -> "Broken":
        """Return a run that broke a promise."""
        replay = scenario.replay(points)
        actions = [*map(str, replay.actions)]
        return cls(scenario.name, actions, str(course.violation), course.log, replay.as_json())


@dataclass(slots=True)
class Tally:
    """Runs, added up.

    Attributes:
        points: how many runs had all of their points take place, by the number of points.
        in_vain: how many had not, and count for nothing.
        kinds: how often each kind of fault took place at a point.
        scenarios: how many of the runs that count each scenario had.
        places: every call site that was come to.
        broken: the runs that broke a promise.
    """

    points: Counter[int] = field(default_factory=Counter)
    in_vain: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    scenarios: Counter[str] = field(default_factory=Counter)
    places: set[str] = field(default_factory=set)
    broken: list[Broken] = field(default_factory=list)

    def count(self, scenario: Scenario, points: Sequence[Action], course: Course) -> None:
        """Count a run."""
        self.places |= course.places
        if course.violation is not None:
            self.broken.append(Broken.of(scenario, points, course))
        if not {*points} <= {*course.actions}:
            self.in_vain += 1
            return
        self.points[len(points)] += 1
        self.kinds.update(str(point.what) for point in points)
        self.scenarios[scenario.name] += 1

    def add(self, other: "Tally") -> None:
        """Add other runs to these."""
        self.points += other.points
        self.in_vain += other.in_vain
        self.kinds += other.kinds
        self.scenarios += other.scenarios
        self.places |= other.places
        self.broken += other.broken
