"""Audit of the order: what two tables hold for each account, against what was sent.

Like `demo.audit`, it shares no code with the library.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from demo.scenarios.fifo.movements import Movement

Applied = Mapping[str, Sequence[int]]
"""The numbers that a table holds for each account, in the order in which they were added."""


def count_order(sent: Iterable[Movement], tables: Sequence[Applied]) -> dict[str, int]:
    """Return the figures that must be 0, by their key in the report.

    Args:
        sent: the movements that were sent, in their order.
        tables: what each consumer has applied.
    """
    expected: dict[str, list[int]] = {}
    for movement in sent:
        if movement.readable:
            expected.setdefault(movement.account, []).append(movement.number)
    return {
        "out_of_order": sum(_out_of_order(t.get(name, ())) for t in tables for name in expected),
        "lost": sum(len({*expected[n]} - {*t.get(n, ())}) for t in tables for n in expected),
        "doubled": sum(len(list(t[n])) - len({*t[n]}) for t in tables for n in t),
        "invented": sum(len({*t[n]} - {*expected.get(n, ())}) for t in tables for n in t),
    }


def count_letters(sent: Iterable[Movement], letters: Iterable[str]) -> dict[str, int]:
    """Compare dead letters with the movements that cannot be read; return figures that must be 0.

    Args:
        sent: the movements that were sent.
        letters: the event id of each dead letter.
    """
    expected = Counter(movement.event_id for movement in sent if not movement.readable)
    found = Counter(letters)
    return {
        "missing_dead_letters": (expected - found).total(),
        "unexplained_dead_letters": (found - expected).total(),
    }


def inversions(tables: Mapping[str, Applied]) -> list[str]:
    """Return in words where a table has a number after a larger one."""
    return [
        f"{table}, {account}: {after} after {before}"
        for table, applied in tables.items()
        for account, numbers in applied.items()
        for before, after in pairwise(numbers)
        if after < before
    ]


def _out_of_order(numbers: Sequence[int]) -> int:
    """Return how often a number follows a larger one."""
    return sum(after < before for before, after in pairwise(numbers))
