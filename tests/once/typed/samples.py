"""Registrations for type checkers: each line with `# error` is wrong, and the others are right."""

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


class SoldOut(Refusal): ...


class Declined(Refusal): ...


@consumer.handles("placed", Placed)
def place(event: Placed, tx: Transaction) -> None:
    tx.perform(charge, Charge(1))
    tx.perform(charge, Paid("x"))  # error


@consumer.handles("shipped", Shipped)
def ship(event: Shipped, tx: Transaction) -> None: ...


@consumer.handles("placed", Placed)  # error
def place_shipped(event: Shipped, tx: Transaction) -> None: ...


@consumer.handles("placed", Placed)  # error
def without_transaction(event: Placed) -> None: ...


@consumer.handles("placed", Placed)  # error
def returning(event: Placed, tx: Transaction) -> int:
    return 1


@consumer.rejects(SoldOut)
def refuse(event: Placed | Shipped, refusal: SoldOut, tx: Transaction) -> None: ...


@consumer.rejects(SoldOut)  # error
def refuse_another(event: Placed, refusal: Declined, tx: Transaction) -> None: ...


@consumer.effect("charge", Charge, policy=Policy.AT_LEAST_ONCE)
def charge(request: Charge, call: Call) -> Paid:
    return Paid(f"of {request.amount}")


@consumer.effect("notify", Charge, policy=Policy.AT_LEAST_ONCE)
async def notify(request: Charge, call: Call) -> Paid:
    return Paid(f"of {request.amount}")


@consumer.effect("refund", Charge, policy=Policy.AT_LEAST_ONCE)  # error
def refund(request: Paid, call: Call) -> Paid:
    return request


@consumer.completes(charge)
def charged(event: Placed, outcome: Paid, tx: Transaction) -> None: ...


@consumer.completes(notify)
def notified(event: Placed, outcome: Paid, tx: Transaction) -> None: ...


@consumer.completes(charge)  # error
def charged_text(event: Placed, outcome: str, tx: Transaction) -> None: ...


@consumer.completes(notify)  # error
def notified_text(event: Placed, outcome: str, tx: Transaction) -> None: ...


@consumer.around  # error
def no_hook(step: Step) -> None: ...
