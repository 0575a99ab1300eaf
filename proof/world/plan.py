"""Fault plans: which fault is injected where, at random or by a list of actions."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from once.names import CLOCK_SKEW_SECONDS
from proof.world.calls import Call
from proof.world.faults import Fault, kinds

_LASTING = 0.6
"""Share of the faults that the SDK's retries meet as well."""
_SKEWED = 0.5
"""Share of function processes whose clock is slow or fast."""
_SKEWS = (-CLOCK_SKEW_SECONDS, -60.0, 60.0, CLOCK_SKEW_SECONDS)


class PlatformFault(StrEnum):
    """A fault of queues, streams, Lambda or clocks, outside of calls."""

    REDELIVERED = "redelivered"
    """A queue delivers a deleted message again."""
    VISIBLE_EARLY = "visible early"
    """A queue delivers a message that a function is working on."""
    THROTTLED = "throttled"
    """Lambda throttles the function: messages are received without an invocation."""
    BATCH_AGAIN = "batch again"
    """The stream delivers a batch again that the relay has finished."""
    DROPPED = "dropped"
    """The stream loses a batch before the relay reads it, as after an outage of over 24 h."""
    SKEWED = "skewed clock"
    """A function's clock is slow or fast while its process is warm."""
    UNANSWERED = "unanswered"
    """The function answers an HTTP request, and the sender gets no answer."""


Kinds = frozenset[Fault] | frozenset[PlatformFault]


@dataclass(frozen=True, slots=True)
class Action:
    """The injection of one fault.

    Attributes:
        place: a call site, as `module.function service.operation`, or a platform fault and its
            function.
        number: the occurrence at this place, from 1.
        what: a Fault or a PlatformFault.
        lasting: whether the SDK's retries meet it as well.
        position: the entry of a request that it is about, modulo their number; see
            `proof.world.faults.refusal`.
        seconds: the delay of a late call, or by how much a clock is fast.
    """

    place: str
    number: int
    what: str
    lasting: bool = True
    position: int = 0
    seconds: float = 2.0

    def __str__(self) -> str:
        return f"{self.place} #{self.number}: {self.what}"


@dataclass(frozen=True, slots=True)
class InjectionPoint:
    """One occurrence of a place, and the faults that are possible there."""

    place: str
    number: int
    possible: Kinds


Draw = Callable[[InjectionPoint], Action | None]


class Plan:
    """Decides which faults are injected, and counts them.

    Args:
        draw: returns the action for an injection point, None for no fault.

    Attributes:
        fired: number of injected faults by kind.
        actions: the injected faults, in order.
        off: whether no more faults are injected.
    """

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._first_attempts: dict[str, Action | None] = {}
        self._seen: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        self.actions: list[Action] = []
        self.off = False

    def call(self, call: Call) -> Action | None:
        """Return the fault of one attempt of a call."""
        if call.name in self._first_attempts:
            first = self._first_attempts[call.name]
            return first if first is not None and first.lasting and not self.off else None
        action = self._drawn(call.place, kinds(call.service, call.operation))
        if call.name:
            self._first_attempts[call.name] = action
        return action

    def platform(self, kind: PlatformFault, function: str) -> Action | None:
        """Return the action if a platform fault of a function occurs."""
        return self._drawn(f"{kind} {function}", frozenset({kind}))

    def skew(self, function: str) -> float:
        """Return by how many seconds the clock of a new function process is fast."""
        action = self.platform(PlatformFault.SKEWED, function)
        return 0.0 if action is None else action.seconds

    def _drawn(self, place: str, possible: Kinds) -> Action | None:
        self._seen[place] += 1
        point = InjectionPoint(place, self._seen[place], possible)
        action = None if self.off else self._draw(point)
        if action is not None:
            self.fired[action.what] += 1
            self.actions.append(action)
        return action


def chance(seed: int, fault_rate: float, platform_rate: float) -> Draw:
    """Return a draw of random faults, which depends on the seed alone.

    Args:
        seed: the seed.
        fault_rate: probability of a fault of each call.
        platform_rate: probability of each platform fault where it is possible.
    """
    draw = random.Random(f"faults {seed}")
    clocks = random.Random(f"clocks {seed}")

    def drawn(point: InjectionPoint) -> Action | None:
        [*what] = sorted(point.possible)
        if what == [PlatformFault.SKEWED]:
            if clocks.random() >= _SKEWED:
                return None
            seconds = clocks.choice(_SKEWS)
            return Action(point.place, point.number, PlatformFault.SKEWED, seconds=seconds)
        if draw.random() >= (platform_rate if isinstance(what[0], PlatformFault) else fault_rate):
            return None
        return Action(
            point.place,
            point.number,
            draw.choice(what),
            lasting=draw.random() < _LASTING,
            position=draw.randrange(6),
            seconds=draw.choice([0.1, 2.0, 20.0, 60.0]),
        )

    return drawn


def script(actions: Iterable[Action]) -> Draw:
    """Return a draw of these actions; one whose place does not occur has no effect."""
    wanted = {(action.place, action.number): action for action in actions}
    return lambda point: wanted.get((point.place, point.number))


def recorded(draw: Draw, reached: list[InjectionPoint]) -> Draw:
    """Return a draw that also appends each call at which a fault could be injected."""

    def drawn(point: InjectionPoint) -> Action | None:
        if not any(isinstance(kind, PlatformFault) for kind in point.possible):
            reached.append(point)
        return draw(point)

    return drawn
