"""Registrations for mypy, which must accept each line, apart from those that ignore an error.

`warn_unused_ignores` is on: mypy also fails if it accepts one of those.
"""

from dataclasses import dataclass
from typing import TypedDict

from msgspec import Struct

from once import Call, Consumer, Policy, Refusal, Step, Transaction

consumer = Consumer("samples")


class Placed(Struct):
    order_id: str


class Shipped(TypedDict):
    order_id: str


@dataclass
class Charge:
    amount: int


class Paid(Struct):
    charge_id: str


class Seat(Struct):
    show: str
    available: int


class SoldOut(Refusal): ...


class Declined(Refusal): ...


SEATS = consumer.table("seats", Seat)
ORDERS = consumer.table("orders")


@consumer.handles("placed", Placed)
def place(event: Placed, tx: Transaction) -> None:
    tx.perform(charge, Charge(1))
    tx.perform(charge, Paid("x"))  # type: ignore[misc]


@consumer.handles("shipped", Shipped)
def ship(event: Shipped, tx: Transaction) -> None:
    tx.put(SEATS, Seat("show", 1))
    tx.put(SEATS, {"show": "show", "available": 1, "note": "a dict is an item of any table"})
    tx.put(SEATS, Paid("charge"))  # type: ignore[misc]
    tx.put(ORDERS, Seat("show", 1))  # type: ignore[misc]
    seat, order = tx.get(SEATS, {"show": "show"}), tx.get(ORDERS, {"order_id": "1"})
    if seat and order:
        tx.put(ORDERS, order | {"available": seat.available})
        tx.put(SEATS, {"show": seat.name})  # type: ignore[attr-defined]


@consumer.handles("placed", Placed)  # type: ignore[arg-type]
def place_shipped(event: Shipped, tx: Transaction) -> None: ...


@consumer.handles("placed", Placed)  # type: ignore[arg-type]
def without_transaction(event: Placed) -> None: ...


@consumer.handles("placed", Placed)  # type: ignore[arg-type]
def returning(event: Placed, tx: Transaction) -> int:
    return 1


@consumer.rejects(SoldOut)
def refuse(event: Placed | Shipped, refusal: SoldOut, tx: Transaction) -> None: ...


@consumer.rejects(SoldOut)  # type: ignore[arg-type]
def refuse_another(event: Placed, refusal: Declined, tx: Transaction) -> None: ...


@consumer.effect("charge", Charge, policy=Policy.AT_LEAST_ONCE)
def charge(request: Charge, call: Call) -> Paid:
    return Paid(f"of {request.amount}")


@consumer.effect("notify", Charge, policy=Policy.AT_LEAST_ONCE)
async def notify(request: Charge, call: Call) -> Paid:
    return Paid(f"of {request.amount}")


@consumer.effect("refund", Charge, policy=Policy.AT_LEAST_ONCE)  # type: ignore[arg-type]
def refund(request: Paid, call: Call) -> Paid:
    return request


@consumer.completes(charge)
def charged(event: Placed, outcome: Paid, tx: Transaction) -> None: ...


@consumer.completes(notify)
def notified(event: Placed, outcome: Paid, tx: Transaction) -> None: ...


@consumer.completes(charge)  # type: ignore[arg-type]
def charged_text(event: Placed, outcome: str, tx: Transaction) -> None: ...


@consumer.completes(notify)  # type: ignore[arg-type]
def notified_text(event: Placed, outcome: str, tx: Transaction) -> None: ...


@consumer.around  # type: ignore[arg-type]
def no_hook(step: Step) -> None: ...
