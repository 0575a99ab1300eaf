"""Search through all schedules of a scope within its bounds, depth first.

Context bounding, as CHESS does it: a preemption is a switch away from a process that could go on,
and so is a delay of one by time. Switches at the end of a process, or while it waits, are free.

An execution cannot be copied, so each begins anew and repeats the choices that led to where it
branches off. It ends early in a state that was seen before with at least as many preemptions and
faults left. That is sound: all oracles are about states, the state holds everything that its future
depends on (see `proof.explore.execution`), and whoever may preempt and disturb less has no future
that the other one has not. Equivalent faults, and equal messages that were never received, are left
out there as well.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proof.explore.execution import DEATH, Execution, Option, Pruned
from proof.explore.scopes import SCOPES, Scope, scope_named
from proof.workers import Part, Tell, untold
from proof.world.faults import Fault

KINDS = frozenset({*map(str, Fault), DEATH})
_PAIR = 2
_MOST_WHEN_BROKEN = 8_000
"""So many schedules are executed in the search for a broken protocol."""


@dataclass(frozen=True, slots=True)
class Found:
    """A violation, with its schedule as choices for `replayed`, and the trace of its calls."""

    scope: str
    violation: str
    choices: tuple[int, ...]
    log: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.scope}: {self.violation}", *self.log])


@dataclass(slots=True)
class Explored:
    """The exploration of one scope.

    Attributes:
        schedules: executions, to rest or to a state that was seen before.
        calls: calls to the outside, of all executions.
        complete: whether nothing within the bounds is left.
        faults_by_kind: how often each kind of fault was chosen.
    """

    scope: Scope
    schedules: int = 0
    states: int = 0
    calls: int = 0
    seconds: float = 0.0
    complete: bool = False
    faults_by_kind: Counter[str] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Return what a report says of the scope."""
        return {
            "scope": self.scope.name,
            "preemptions": self.scope.preemptions,
            "faults": self.scope.faults,
            "schedules": self.schedules,
            "states": self.states,
            "calls": self.calls,
            "violations": len(self.found),
            "seconds": round(self.seconds, 1),
            "complete": self.complete,
        }


class Overgrown(Exception):
    """A scope has more states than its share."""


def parts() -> list[Part]:
    """Return the parts of the exploration of all scopes, each with the result `Explored`."""
    return [Part(one.name, "states", one.states, explore, (one, None), 0.006) for one in SCOPES]


def explore(scope: Scope, most_schedules: int | None = None, tell: Tell = untold) -> Explored:
    """Explore a scope, up to its first violation.

    Args:
        scope: the scope.
        most_schedules: where to stop; None to go on to the end.
        tell: called with the number of states.

    Raises:
        Overgrown: the scope has more states than its share.
    """
    began = time.monotonic()
    search = _Search(scope)
    explored = search.explored
    is_whole, most = most_schedules is None, most_schedules or math.inf
    # With one deviation, a violation is found much earlier among the shortest prefixes.
    is_shallow = not is_whole and scope.faults < _PAIR
    while search.waiting and not explored.found and explored.schedules < most:
        search.follow(search.waiting.popleft() if is_shallow else search.waiting.pop())
        explored.states = len(search.seen)
        tell(explored.states)
        if is_whole and explored.states > scope.states:
            raise Overgrown(
                f"the scope {scope.name!r} has more states than its share of {scope.states:,}: "
                "give it less traffic, smaller bounds or a larger share, in proof/explore/scopes.py"
            )
    explored.complete = not search.waiting
    explored.seconds = time.monotonic() - began
    return explored


def violated(scope: Scope) -> Found | None:
    """Return a violation of a scope by a broken protocol; None if there is none."""
    found = explore(scope, _MOST_WHEN_BROKEN).found
    return found[0] if found else None


def replayed(scope: str, choices: Sequence[int]) -> Found | None:
    """Repeat a schedule, and return the violation that it ends in, if any.

    Choices are positions among all options, so the bounds of the scope make no difference.

    Raises:
        LookupError: there is no such scope, or a choice is not possible where it is made.
    """
    return _found(Execution(scope_named(scope), choices, lambda *_: None))


def _found(execution: Execution) -> Found | None:
    if (violation := execution.run()) is None:
        return None
    schedule = tuple(execution.choices), tuple(execution.world.log)
    return Found(execution.scope.name, str(violation), *schedule)


class _Search:
    """The search through one scope."""

    def __init__(self, scope: Scope) -> None:
        self.waiting: deque[tuple[int, ...]] = deque([()])
        self.seen: dict[bytes, list[tuple[int, int]]] = {}
        self.explored = Explored(scope)
        self._scope = scope

    def follow(self, prefix: tuple[int, ...]) -> None:
        """Execute by a prefix of choices, and from there without preemptions and faults."""
        self.explored.schedules += 1
        execution = Execution(self._scope, prefix, self._branch)
        try:
            if found := _found(execution):
                self.explored.found.append(found)
        except Pruned:
            pass
        self.explored.calls += len(execution.world.log)

    def _branch(self, execution: Execution, options: Sequence[Option]) -> None:
        scope = self._scope
        left = scope.preemptions - execution.preemptions, scope.faults - execution.faults
        self._check_new(execution.digest(), left)
        for choice, option in enumerate(options[1:], start=1):
            if option.preemptions <= left[0] and bool(option.fault) <= left[1]:
                self.waiting.append((*execution.choices, choice))
                if option.fault:
                    self.explored.faults_by_kind[option.fault] += 1

    def _check_new(self, state: bytes, left: tuple[int, int]) -> None:
        before = self.seen.setdefault(state, [])
        if any(left[0] <= one[0] and left[1] <= one[1] for one in before):
            raise Pruned
        before.append(left)
