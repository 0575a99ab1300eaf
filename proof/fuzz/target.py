"""A parser under fuzz: how its inputs are drawn, and what must hold for each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any


class Broken(Exception):
    """A property does not hold. The text is that of the property, whatever the input."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parser.

    Attributes:
        name: of the parser, in the report.
        share: how many inputs of a hundred are its own.
        draw: returns an input, which is anything that JSON can hold, so that it can be kept.
        check: hands an input to the parser; raises Broken where a property does not hold, and lets
            pass what the parser raises and must not.
    """

    name: str
    share: int
    draw: Callable[[Random], Any]
    check: Callable[[Any], None]


def claim(holds: bool, what: str) -> None:
    """Hold a property against what was found.

    Raises:
        Broken: it does not hold.
    """
    if not holds:
        raise Broken(what)
