"""All scopes: how far each is explored, and the figures."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proof.explore.scheduler import DEATH
from proof.explore.scopes import SCOPES, Scope
from proof.explore.search import Explored, Found, explore
from proof.world.faults import Fault

MOST_SCHEDULES = 1_000
"""So many schedules with two faults are executed where all of them would take too long."""
MOST_FAULTS = 2
KINDS = frozenset({*map(str, Fault), DEATH})


@dataclass(slots=True)
class Campaign:
    """The exploration of several scopes.

    Attributes:
        explored: one by one; a scope may stand there with several bounds.
    """

    explored: list[Explored] = field(default_factory=list)

    @property
    def states(self) -> int:
        """The number of different states that were reached."""
        return sum(one.states for one in self.explored)

    @property
    def schedules(self) -> int:
        """The number of schedules that were executed."""
        return sum(one.schedules for one in self.explored)

    @property
    def faults_by_kind(self) -> Counter[str]:
        """The number of times that each kind of fault was chosen."""
        return sum((one.faults_by_kind for one in self.explored), Counter[str]())

    @property
    def found(self) -> list[Found]:
        """The violations."""
        return [found for one in self.explored for found in one.found]

    @property
    def never(self) -> list[str]:
        """The kinds of fault that were never chosen: they show nothing."""
        return sorted(KINDS - self.faults_by_kind.keys())

    @property
    def unfinished(self) -> list[str]:
        """The scopes that are not explored to the end within the bounds that must be reached."""
        return [one.scope.name for one in self.explored if one.must_end and not one.complete]

    def figures(self) -> dict[str, Any]:
        """Return the part of the report that is about scopes."""
        return {
            "states": self.states,
            "explored_schedules": self.schedules,
            "explored_faults_by_kind": dict(sorted(self.faults_by_kind.items())),
            "scopes": [one.figures() for one in self.explored],
        }


def parts(scopes: Sequence[Scope] = SCOPES) -> list[tuple[Scope, int | None]]:
    """Return each scope with the most schedules to execute, None for all.

    A scope is explored to the end with its bounds. One with a single fault is then explored with
    two, as far as so many schedules go.
    """
    deeper = [replace(scope, faults=MOST_FAULTS) for scope in scopes if scope.faults < MOST_FAULTS]
    return [*((scope, None) for scope in scopes), *((scope, MOST_SCHEDULES) for scope in deeper)]


def explore_part(part: tuple[Scope, int | None]) -> Explored:
    """Explore one part."""
    scope, most = part
    return explore(scope, most_schedules=most)
