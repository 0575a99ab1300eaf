"""What is to go wrong: by chance, or by a list of actions that is followed to the letter."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from once.schema import CLOCK_SKEW_SECONDS
from proof.world.calls import Call
from proof.world.faults import Fault, kinds

_LASTING = 0.6
"""How many of the faults outlast the SDK's own second attempt."""
_SKEWED = 0.5
"""Share of function processes whose clock is slow or fast."""
_SKEWS = (-CLOCK_SKEW_SECONDS, -60.0, 60.0, CLOCK_SKEW_SECONDS)


class Mishap(StrEnum):
    """What goes wrong between the calls."""

    REDELIVERED = "redelivered"
    """A queue delivers a message again that was deleted."""
    VISIBLE_EARLY = "visible early"
    """A message is delivered while a function is still at it."""
    THROTTLED = "throttled"
    """Lambda throttles the function: messages spend a receive without an invocation."""
    BATCH_AGAIN = "batch again"
    """The stream hands a batch over again that was worked on to the end."""
    DROPPED = "dropped"
    """The stream loses a batch that the relay never had, as after an outage of over 24 h."""
    SKEWED = "skewed clock"
    """A function's clock is slow or fast, for as long as its process is warm."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that goes wrong.

    Attributes:
        place: a call, as `module.function service.operation`, or what a mishap is about.
        number: the how manyth at this place, from 1.
        what: a Fault or a Mishap.
        lasting: whether the SDK's further attempts meet it as well.
        position: which entry of a request it is about; counted round.
        seconds: how much later a late call is done, or how far a clock is fast.
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
class Occasion:
    """Where something could go wrong: the how manyth at its place, and what could."""

    place: str
    number: int
    possible: frozenset[Fault] | frozenset[Mishap]


Draw = Callable[[Occasion], Action | None]


class Plan:
    """Says what goes wrong, and counts it.

    Args:
        draw: what an occasion is used for.

    Attributes:
        seen: how often each place was come to.
        possible: what could go wrong at each of them.
        fired: how many of each kind took place.
        actions: what took place, in order.
        off: whether nothing goes wrong any more.
    """

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._met: dict[str, Action | None] = {}
        self.seen: Counter[str] = Counter()
        self.possible: dict[str, frozenset[Fault] | frozenset[Mishap]] = {}
        self.fired: Counter[str] = Counter()
        self.actions: list[Action] = []
        self.off = False

    def call(self, call: Call) -> Action | None:
        """Return what an attempt of a call meets."""
        if call.name in self._met:
            earlier = self._met[call.name]
            return earlier if earlier is not None and earlier.lasting and not self.off else None
        place = f"{call.site} {call.service}.{call.operation}"
        found = self._drawn(place, kinds(call.service, call.operation))
        if call.name:
            self._met[call.name] = found
        return found

    def mishap(self, what: Mishap, about: str) -> bool:
        """Tell whether a mishap takes place."""
        return self._drawn(f"{what} {about}", frozenset({what})) is not None

    def skew(self, about: str) -> float:
        """Return by how many seconds the clock of a new function process is fast."""
        action = self._drawn(f"{Mishap.SKEWED} {about}", frozenset({Mishap.SKEWED}))
        return 0.0 if action is None else action.seconds

    def _drawn(self, place: str, possible: frozenset[Fault] | frozenset[Mishap]) -> Action | None:
        self.seen[place] += 1
        self.possible[place] = possible
        action = None if self.off else self._draw(Occasion(place, self.seen[place], possible))
        if action is not None:
            self.fired[action.what] += 1
            self.actions.append(action)
        return action


def chance(seed: int, faults: float, mishaps: float) -> Draw:
    """Let things go wrong at random.

    Args:
        seed: the same one, the same things.
        faults: how likely each call is to meet a fault.
        mishaps: how likely each mishap is, where it could take place.
    """
    draw = random.Random(f"faults {seed}")
    clocks = random.Random(f"clocks {seed}")

    def drawn(occasion: Occasion) -> Action | None:
        [*what] = sorted(occasion.possible)
        if what == [Mishap.SKEWED]:
            return _skewed(occasion, clocks) if clocks.random() < _SKEWED else None
        if draw.random() >= (mishaps if isinstance(what[0], Mishap) else faults):
            return None
        return Action(
            occasion.place,
            occasion.number,
            draw.choice(what),
            lasting=draw.random() < _LASTING,
            position=draw.randrange(6),
            seconds=draw.choice([0.1, 2.0, 20.0, 60.0]),
        )

    return drawn


def _skewed(occasion: Occasion, clocks: random.Random) -> Action:
    seconds = clocks.choice(_SKEWS)
    return Action(occasion.place, occasion.number, Mishap.SKEWED, seconds=seconds)


def script(actions: Iterable[Action]) -> Draw:
    """Let just these actions take place; what is never come to never does."""
    wanted = {(action.place, action.number): action for action in actions}
    return lambda occasion: wanted.get((occasion.place, occasion.number))
