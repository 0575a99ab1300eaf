"""Points: a call of a scenario, and what it meets."""

from collections.abc import Iterable, Iterator, Sequence

from proof.crashpoints.scenarios import Scenario
from proof.shop.course import Course
from proof.world.faults import Fault
from proof.world.plan import Action, Occasion

LATE_SECONDS = (2.0, 60.0)
"""How late: while its caller still looks for what became of it, and when all is long done."""


def singles(scenario: Scenario, course: Course) -> list[Action]:
    """Return every kind of fault at every call at which nothing goes wrong so far.

    Args:
        scenario: the scenario.
        course: what it comes to without further actions.
    """
    taken = {(action.place, action.number) for action in scenario.actions}
    free = [each for each in course.met if (each.place, each.number) not in taken]
    return [point for occasion in free for point in points_at(occasion)]


def begins_pairs(point: Action, among: Iterable[Action]) -> bool:
    """Tell whether a point is at the first of its place's calls, and no later than need be."""
    first = min(other.number for other in among if other.place == point.place)
    return point.number == first and point.seconds == LATE_SECONDS[0]


def seconds(course: Course, first: Action) -> Iterator[Action]:
    """Yield every kind of fault at the next call that each place makes after a first point.

    Args:
        course: what the scenario comes to with the first point.
        first: that point.
    """
    where = [(each.place, each.number) for each in course.met].index((first.place, first.number))
    begun: set[str] = set()
    for occasion in course.met[where + 1 :]:
        if occasion.place not in begun:
            begun.add(occasion.place)
            yield from points_at(occasion, LATE_SECONDS[:1])


def points_at(occasion: Occasion, lateness: Sequence[float] = LATE_SECONDS) -> list[Action]:
    """Return what can go wrong at a call."""
    return [
        Action(occasion.place, occasion.number, what, seconds=late)
        for what in sorted(occasion.possible)
        for late in (lateness if what == Fault.LATE else lateness[:1])
    ]
