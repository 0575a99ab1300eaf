"""Faults of a payment provider: their kinds, and the rates at which they occur."""

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from random import Random


class PaymentFault(StrEnum):
    """A fault of an execution; rejected requests and replays have none.

    Attributes:
        DROP: charged; the connection closes without an answer, which is saved.
        DROP_BEFORE: nothing is done; the connection closes without an answer.
        DELAY: charged, and answered later.
        ERROR_BEFORE: a 500 instead of a charge; it is saved.
        ERROR_AFTER: charged, but answered with a 500, which is saved.
        UNAVAILABLE: a 503; nothing is done or saved.
        RATE_LIMITED: a 429; nothing is done or saved.
        HOLD_BEFORE: held, then charged and answered, even if the client has disconnected.
        HOLD_AFTER: charged, held, then answered.
    """

    DROP = auto()
    DROP_BEFORE = auto()
    DELAY = auto()
    ERROR_BEFORE = auto()
    ERROR_AFTER = auto()
    UNAVAILABLE = auto()
    RATE_LIMITED = auto()
    HOLD_BEFORE = auto()
    HOLD_AFTER = auto()


@dataclass(frozen=True)
class FaultRates:
    """Rates of random faults, which a seed determines.

    Attributes:
        seed: determines the faults together with each request's key, independent of timing.
        shares: share of the executions by fault, from 0 to 1; together at most 1.
        delay_seconds: duration of a DELAY.
        hold_seconds: longest duration of a hold.
        limits: largest number by fault, including scripted ones.

    Raises:
        ValueError: a value is invalid; the message names it.
    """

    seed: int = 0
    shares: Mapping[PaymentFault, float] = field(default_factory=dict)
    delay_seconds: float = 0.2
    hold_seconds: float = 10
    limits: Mapping[PaymentFault, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_names("shares", self.shares)
        _check_names("limits", self.limits)
        _check_shares(self.shares)
        _check_limits(self.limits)
        _check_seconds("delay_seconds", self.delay_seconds)
        _check_seconds("hold_seconds", self.hold_seconds)

    def draw(self, idempotency_key: str, nth: int) -> PaymentFault | None:
        """Return the random fault of the nth execution under a key; None is no fault."""
        left = Random(f"{self.seed}/{idempotency_key}/{nth}").random()
        for fault in PaymentFault:
            left -= self.shares.get(fault, 0)
            if left < 0:
                return fault
        return None


def _check_names(name: str, faults: Mapping[PaymentFault, float]) -> None:
    if unknown := sorted(faults.keys() - set(PaymentFault)):
        known = ", ".join(PaymentFault)
        raise ValueError(f"{name}: no such fault: {', '.join(unknown)}; there are {known}")


def _check_shares(shares: Mapping[PaymentFault, float]) -> None:
    for fault, share in shares.items():
        if not 0 <= share <= 1:
            raise ValueError(f"shares: {fault} is {share}; give a part of 1")
    if (total := math.fsum(shares.values())) > 1:
        raise ValueError(f"shares: they are {total:g} together; give at most 1")


def _check_limits(limits: Mapping[PaymentFault, int]) -> None:
    for fault, number in limits.items():
        if number < 0:
            raise ValueError(f"limits: {fault} is {number}; give 0 or more")


def _check_seconds(name: str, seconds: float) -> None:
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"{name} is {seconds}; give a number of seconds, 0 or more")
