"""Movements: numbered messages of some accounts, and the audit of their order.

Some are sent again, some cannot be read. Like `demo.audit`, the audit shares no code with the
library: it compares what two tables hold for each account with what was sent.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Self

ACCOUNTS = 25
PER_ACCOUNT = 40
FAILING_SHARE = 0.05
UNREADABLE_SHARE = 0.01
RESENT_SHARE = 0.2
EVENT_TYPE = "account.moved"

Applied = Mapping[str, Sequence[int]]
"""The numbers that a table holds for each account, in the order in which they were added."""


@dataclass(frozen=True, slots=True)
class Movement:
    """A movement: its account, its number there, and what is wrong with it."""

    account: str
    number: int
    fails: bool
    readable: bool

    @property
    def event_id(self) -> str:
        """The id of the event. The topic drops a second message with it, for five minutes."""
        return f"{self.account}-{self.number}"

    @property
    def body(self) -> str:
        """The CloudEvent. The data of an unreadable one has a number that is a text."""
        number = self.number if self.readable else str(self.number)
        return json.dumps(
            {
                "specversion": "1.0",
                "id": self.event_id,
                "source": "/bank",
                "type": EVENT_TYPE,
                "data": {"account_id": self.account, "number": number, "fails": self.fails},
            }
        )


@dataclass(frozen=True, slots=True)
class MovementPlan:
    """The movements to send, each account's in its order.

    Attributes:
        movements: all of them, once.
        within_window: those that are sent again with the same deduplication id.
        after_window: those that are sent again with another one. That is what follows when the
            topic has forgotten the first, after five minutes.
    """

    movements: Sequence[Movement]
    within_window: Sequence[Movement]
    after_window: Sequence[Movement]

    @classmethod
    def draw(cls, random: Random) -> Self:
        """Return a plan, with the accounts interleaved."""
        names = [f"account-{n:02}" for n in range(ACCOUNTS) for _ in range(PER_ACCOUNT)]
        random.shuffle(names)
        counts: Counter[str] = Counter()
        movements = []
        for name in names:
            wrong = random.random()
            fails = wrong < FAILING_SHARE
            readable = fails or wrong >= FAILING_SHARE + UNREADABLE_SHARE
            movements.append(Movement(name, counts[name], fails=fails, readable=readable))
            counts[name] += 1
        resendable = [each for each in movements if each.readable]
        again = random.sample(resendable, int(len(movements) * RESENT_SHARE))
        return cls(movements, again[::2], again[1::2])

    @property
    def messages(self) -> list[tuple[Movement, str]]:
        """Every message with its deduplication id, in the order of sending."""
        return [
            *((each, each.event_id) for each in (*self.movements, *self.within_window)),
            *((each, f"{each.event_id}-again") for each in self.after_window),
        ]


def count_order(sent: Iterable[Movement], tables: Sequence[Applied]) -> dict[str, int]:
    """Compare what each consumer has applied with what was sent; return figures that must be 0."""
    expected: dict[str, list[int]] = {}
    for movement in sent:
        if movement.readable:
            expected.setdefault(movement.account, []).append(movement.number)
    return {
        "out_of_order": sum(len(_inversions(t.get(n, ()))) for t in tables for n in expected),
        "lost": sum(len({*expected[n]} - {*t.get(n, ())}) for t in tables for n in expected),
        "doubled": sum(len(list(t[n])) - len({*t[n]}) for t in tables for n in t),
        "invented": sum(len({*t[n]} - {*expected.get(n, ())}) for t in tables for n in t),
    }


def count_letters(sent: Iterable[Movement], letters: Iterable[str]) -> dict[str, int]:
    """Compare the event ids of dead letters with the movements that cannot be read."""
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
        for before, after in _inversions(numbers)
    ]


def _inversions(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return each number that is followed by a smaller one, with that one."""
    return [(before, after) for before, after in pairwise(numbers) if after < before]
