"""Every interleaving and fault of a scope: depth-first, each state once."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from proof.model.faults import Fault
from proof.model.moves import Move, Parts, moves
from proof.model.oracles import broken, unrest
from proof.model.scopes import SCOPES, Scope, scope_named
from proof.model.world import World

_OPEN = 0
"""The number of runs of a state while they are followed: whoever meets it goes in a circle."""
_CIRCLE = "it goes round in a circle"


class Violation(NamedTuple):
    """A promise that was broken.

    Attributes:
        scope: the name of the small world.
        faults: how many might happen in it.
        oracle: the promise.
        actions: what breaks it, in as few steps as any.
    """

    scope: str
    faults: int
    oracle: str
    actions: tuple[str, ...]

    def __str__(self) -> str:
        steps = (f"  {number:2}. {action}" for number, action in enumerate(self.actions, 1))
        return "\n".join([f"{self.scope}: {self.oracle}", *steps])


@dataclass(slots=True)
class Explored:
    """What was found.

    Attributes:
        paths: how many different runs there are from a first state to one at rest. They are counted
            and not walked: what follows a state is the same, however it was reached.
        states: how many different states there are.
        faults_by_kind: from how many states each kind of fault struck.
        violations: promises that were broken; the first of each scope.
    """

    paths: int = 0
    states: int = 0
    faults_by_kind: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)


class _Broken(Exception):
    """A state breaks a promise."""


def explore(scopes: Iterable[Scope] = SCOPES, parts: Parts | None = None) -> Explored:
    """Explore scopes, and return what was found in all of them together.

    A kind of fault that never struck is a violation too: nothing would be known of it.

    Args:
        scopes: the small worlds.
        parts: the protocol; the real one if None.
    """
    explored = Explored()
    for scope in scopes:
        _Search(parts or Parts(), scope, explored).run()
    for fault in Fault:
        if not explored.faults_by_kind[fault]:
            explored.violations.append(Violation("all", 0, f"the fault never struck: {fault}", ()))
    return explored


class _Search:
    """Explores one scope."""

    def __init__(self, parts: Parts, scope: Scope, explored: Explored) -> None:
        self._parts = parts
        self._scope = scope
        self._explored = explored
        self._runs: dict[World, int] = {}
        self._actions: list[str] = []

    def run(self) -> None:
        """Follow everything, up to the first state that breaks a promise."""
        try:
            self._explored.paths += self._follow(self._scope.start())
        except _Broken as oracle:
            longer = Violation(
                self._scope.name, self._scope.faults, str(oracle), tuple(self._actions)
            )
            self._explored.violations.append(shortest(self._parts, self._scope) or longer)
        self._explored.states += len(self._runs)

    def _follow(self, world: World) -> int:
        """Return how many runs begin in a state and end at rest."""
        if (known := self._runs.get(world)) is not None:
            if known == _OPEN:
                raise _Broken(_CIRCLE)
            return known
        self._runs[world] = _OPEN
        following = _following(self._parts, self._scope, world)
        runs = sum(map(self._take, following)) if following else 1
        self._runs[world] = runs
        return runs

    def _take(self, move: Move) -> int:
        if move.fault:
            self._explored.faults_by_kind[move.fault] += 1
        self._actions.append(move.words)
        runs = self._follow(move.world)
        self._actions.pop()
        return runs


def _following(parts: Parts, scope: Scope, world: World) -> list[Move]:
    following = list(moves(parts, scope, world))
    if oracle := broken(world) or (None if following else unrest(scope, world)):
        raise _Broken(oracle)
    return following


def shortest(parts: Parts, scope: Scope) -> Violation | None:
    """Return a violation with as few actions as any, or None where no state breaks a promise."""
    start = scope.start()
    came: dict[World, tuple[World, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        world = waiting.popleft()
        try:
            following = _following(parts, scope, world)
        except _Broken as oracle:
            return Violation(scope.name, scope.faults, str(oracle), tuple(_way(came, world))[::-1])
        for move in following:
            if move.world not in came:
                came[move.world] = (world, move.words)
                waiting.append(move.world)
    return None


def _way(came: dict[World, tuple[World, str] | None], world: World) -> Iterator[str]:
    """Yield the actions that led to a state, the last one first."""
    step = came[world]
    while step is not None:
        yield step[1]
        step = came[step[0]]


def replay(violation: Violation, parts: Parts) -> str | None:
    """Take a violation's actions once more, and return the promise that their end breaks, if any.

    Raises:
        LookupError: there is no such scope, or an action cannot happen where it stands in the list.
    """
    scope = scope_named(violation.scope)._replace(faults=violation.faults)
    world = scope.start()
    for action in violation.actions:
        found = [move.world for move in moves(parts, scope, world) if move.words == action]
        if len(found) != 1:
            raise LookupError(f"{len(found)} moves are {action!r} here: is it the same protocol?")
        world = found[0]
    try:
        _following(parts, scope, world)
    except _Broken as oracle:
        return str(oracle)
    return None
