"""Traffic of the FIFO consumers: numbered entries of a few accounts."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

_FAILING, _BLOCKED = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a run.

    Attributes:
        accounts: the account of each entry, in the order in which they are sent.
        blocks_group: what both consumers do with a failed message.
        failing: the numbers that fail permanently, until the handler is corrected.
        fatal: the numbers whose events no function survives reading.
    """

    accounts: tuple[str, ...]
    blocks_group: bool = False
    failing: tuple[int, ...] = ()
    fatal: tuple[int, ...] = ()

    @property
    def fatal_bodies(self) -> list[str]:
        """The events of the fatal numbers."""
        return [body_of(number, self.accounts[number]) for number in self.fatal]

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Entries":
        """Return the entries of a replay file."""
        failing = tuple(content["failing"])
        return cls(tuple(content["accounts"]), content["blocks_group"], failing)

    def less(self) -> Iterator["Entries"]:
        """Yield traffic with the last entry less, and with one failing entry less."""
        if len(self.accounts) > 1:
            last = len(self.accounts) - 1
            failing = tuple(number for number in self.failing if number != last)
            yield replace(self, accounts=self.accounts[:-1], failing=failing)
        for number in self.failing:
            yield replace(self, failing=tuple(n for n in self.failing if n != number))


def body_of(number: int, account: str) -> str:
    """Return the event of an entry."""
    return json.dumps(
        {
            "specversion": "1.0",
            "id": f"entry-{number}",
            "source": "/bank",
            "type": "entry.posted",
            "data": {"account": account, "number": number},
        }
    )


def drawn(seed: int) -> Entries:
    """Return random entries of one or two accounts."""
    draw = random.Random(f"entries {seed}")
    accounts = tuple(draw.choice("aab") for _ in range(draw.randint(2, 6)))
    failing = tuple(n for n, _ in enumerate(accounts) if draw.random() < _FAILING)
    return Entries(accounts, draw.random() < _BLOCKED, failing)
