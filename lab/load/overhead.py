"""Overhead of an approach: duration of its handler beside one without idempotency."""

from collections.abc import Iterable, Sequence
from statistics import median

from lab.load.approach_run import Running, Site, running
from lab.load.payments import Invocation
from lab.load.traffic import BATCH, singles
from redelivery import Subject

ROUNDS = 16


def overhead(site: Site, subject: Subject, bare: Running, rounds: int = ROUNDS) -> float:
    """Return the ratio of two handlers' durations, for messages that are no duplicates.

    Both are deployed side by side and take turns: a round is one batch of each, and the one that
    begins alternates. The result is the median of the rounds' ratios: other work of the machine
    affects both parts of a ratio. One process works at a time, so that processes do not wait for
    each other, as they do not on Lambda.

    Args:
        site: where to run the approach.
        subject: the approach.
        bare: the consumer without idempotency.
        rounds: number of rounds.

    Raises:
        TimeoutError: a queue was not at rest in time.
    """
    with running(site, subject) as own:
        return median(_ratios(own, bare, rounds))


def _ratios(own: Running, bare: Running, rounds: int) -> Iterable[float]:
    for n in range(rounds):
        batches = singles(n * BATCH, BATCH)
        turns = (own, bare) if n % 2 else (bare, own)
        ms = {id(turn): _ms(turn.process(batches)) for turn in turns}
        yield ms[id(own)] / ms[id(bare)]


def _ms(invocations: Sequence[Invocation]) -> float:
    """Return the mean duration for a message, of processes that are warm."""
    warm = [each for each in invocations if each.is_warm]
    return sum(each.ms for each in warm) / sum(each.messages for each in warm)
