"""Findings: the figures of an audit."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SampleFigures:
    """Sample events of one consumer; duplicates count as received and not as distinct."""

    received: int
    distinct: int
    doubled: int
    lost: int

    def __str__(self) -> str:
        return (
            f"{self.received} received, {self.distinct} distinct, {self.doubled} doubled, "
            f"{self.lost} lost"
        )


@dataclass
class Findings:
    """The audit's result.

    An effect is what an event should have changed once: an order stored, stock moved, a card
    charged, a customer written to. `lost` counts missing effects that are neither quarantined nor
    refused, `doubled` counts excess effects. `unfinished` counts orders, reservations and payments
    without a final status, or with a wrong one. `stock_balance_error` is the difference between
    stock moved and stock reserved or sold, in pieces. `balance_error` is the difference between
    amounts ordered and paid, in minor units, and between stock moved and stock expected to move.
    `samples` has the figures of each consumer of sample events; `lost` and `doubled` include them.
    """

    sent: int
    distinct: int
    deliveries: int = 0
    orders_stored: int = 0
    orders_paid: int = 0
    orders_refused: int = 0
    orders_declined: int = 0
    unfinished: int = 0
    stock_moved: int = 0
    stock_balance_error: int = 0
    charges: int = 0
    double_charges: int = 0
    emails: int = 0
    effects: int = 0
    refused: int = 0
    lost: int = 0
    doubled: int = 0
    balance_error: int = 0
    unexplained_dead_letters: int = 0
    quarantined_by_reason: Counter[str] = field(default_factory=Counter)
    samples: dict[str, SampleFigures] = field(default_factory=dict)

    @property
    def quarantined(self) -> int:
        """Number of quarantined messages, each counted once for each consumer."""
        return self.quarantined_by_reason.total()

    @property
    def clean(self) -> bool:
        """Whether nothing is lost, doubled, unfinished or unexplained, and everything adds up."""
        faults = (
            self.lost,
            self.doubled,
            self.double_charges,
            self.unfinished,
            self.balance_error,
            self.stock_balance_error,
            self.unexplained_dead_letters,
        )
        return self.effects > 0 and not any(faults)

    def count(self, found: int, expected: int = 1) -> None:
        """Count one effect that should have happened `expected` times."""
        self.effects += min(found, expected)
        self.lost += max(0, expected - found)
        self.doubled += max(0, found - expected)
