"""Movements: numbered messages of some accounts, of which some are sent again or cannot be read."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

ACCOUNTS = 25
PER_ACCOUNT = 40
FAILING_SHARE = 0.05
UNREADABLE_SHARE = 0.01
RESENT_SHARE = 0.2
EVENT_TYPE = "account.moved"


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
            movements.append(_movement(name, counts[name], random.random()))
            counts[name] += 1
        readable = [each for each in movements if each.readable]
        again = random.sample(readable, int(len(movements) * RESENT_SHARE))
        return cls(movements, again[::2], again[1::2])

    @property
    def messages(self) -> list[tuple[Movement, str]]:
        """Every message with its deduplication id, in the order of sending."""
        return [
            *((each, each.event_id) for each in (*self.movements, *self.within_window)),
            *((each, f"{each.event_id}-again") for each in self.after_window),
        ]


def _movement(account: str, number: int, wrong: float) -> Movement:
    fails = wrong < FAILING_SHARE
    readable = not FAILING_SHARE <= wrong < FAILING_SHARE + UNREADABLE_SHARE
    return Movement(account, number, fails=fails, readable=readable)
