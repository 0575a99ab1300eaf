"""The short form of the fuzzers, and how soon it notices something."""

from proof.fuzz.crash import failure
from proof.fuzz.guard import alarm
from proof.fuzz.hunt import chosen
from proof.fuzz.parsers import PARSERS

SEED, INPUTS = 20_260, 20_000


def first_failure(parser: str) -> str | None:
    """Return what the short form finds first in one parser; None where it finds nothing."""
    with alarm():
        for number in range(INPUTS):
            target, rng = chosen(SEED, number, PARSERS)
            if target.name == parser and (error := failure(target, target.draw(rng))):
                return error
    return None
