"""A stretch of inputs, drawn and checked one by one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from proof.fuzz.crash import Crash, failure
from proof.fuzz.guard import alarm
from proof.fuzz.target import Target


@dataclass(slots=True)
class Haul:
    """What a stretch came to.

    Attributes:
        inputs: how many reached each parser.
        failed: how many of them failed, by parser and error.
        crashes: one for each parser and error.
    """

    inputs: Counter[str] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    crashes: dict[tuple[str, str], Crash] = field(default_factory=dict)

    def add(self, other: "Haul") -> None:
        """Add what another stretch came to; of crashes of one kind the first is kept."""
        self.inputs += other.inputs
        self.failed += other.failed
        self.crashes = other.crashes | self.crashes


def hunt(seed: int, numbers: Iterable[int], targets: Sequence[Target]) -> Haul:
    """Check the inputs of these numbers.

    An input depends on the seed and its number alone: not on who draws it, nor on what came before.

    Args:
        seed: of the run.
        numbers: of the inputs.
        targets: the parsers among which the inputs are shared out.
    """
    haul = Haul()
    with alarm():
        for number in numbers:
            target, rng = chosen(seed, number, targets)
            _try(haul, target, seed, number, rng)
    return haul


def chosen(seed: int, number: int, targets: Sequence[Target]) -> tuple[Target, Random]:
    """Return whom an input is for, and the chance that it is drawn with."""
    rng = Random(f"{seed}/{number}")
    [target] = rng.choices(targets, [target.share for target in targets])
    return target, rng


def _try(haul: Haul, target: Target, seed: int, number: int, rng: Random) -> None:
    found = target.draw(rng)
    error = failure(target, found)
    haul.inputs[target.name] += 1
    if error is None:
        return
    kind = target.name, error
    haul.failed[kind] += 1
    if kind not in haul.crashes:
        haul.crashes[kind] = Crash.of(target, seed, number, found, error)
