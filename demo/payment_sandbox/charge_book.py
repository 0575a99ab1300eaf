"""Charge book: every charge that was made or declined."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from demo.payment_sandbox.charge_request import ChargeRequest


@dataclass(frozen=True, slots=True)
class ChargeRecord:
    """A charge in the book.

    Attributes:
        id: Stripe's form, `ch_…`.
        payment_intent: the intent it belongs to, `pi_…`; each has one charge.
        amount: in the currency's minor unit.
        currency: three lower-case letters.
        status: `succeeded` or `failed`.
        transfer_group: the client's name for charges that belong together.
        metadata: the client's own data.
        idempotency_key: the request's key; None without one.
        created: time in seconds since the epoch.
    """

    id: str
    payment_intent: str
    amount: int
    currency: str
    status: str
    transfer_group: str | None
    metadata: Mapping[str, str]
    idempotency_key: str | None
    created: int

    @property
    def succeeded(self) -> bool:
        """Whether money moved."""
        return self.status == "succeeded"


class ChargeBook:
    """The charges in their order. Thread-safe: `append` and copy of a list are atomic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._charges: list[ChargeRecord] = []

    def record(self, request: ChargeRequest, idempotency_key: str | None) -> ChargeRecord:
        """Make or decline a charge, and add it to the book."""
        charge = ChargeRecord(
            id=f"ch_{secrets.token_hex(12)}",
            payment_intent=f"pi_{secrets.token_hex(12)}",
            amount=request.amount,
            currency=request.currency,
            status="failed" if request.is_declined else "succeeded",
            transfer_group=request.transfer_group,
            metadata=request.metadata,
            idempotency_key=idempotency_key,
            created=int(self._clock()),
        )
        self._charges.append(charge)
        return charge

    def charges(self) -> list[ChargeRecord]:
        """Return every charge, the oldest first."""
        return list(self._charges)

    def lines(self) -> list[dict[str, Any]]:
        """Return every charge as plain data, the oldest first."""
        return [asdict(charge) for charge in self.charges()]
