"""Reserves stock for an order, and sells or releases it when the payment has ended."""

import os
from collections import Counter
from datetime import timedelta
from typing import Annotated

from boto3.dynamodb.conditions import Attr
from msgspec import Meta, Struct

from once import Consumer, Refusal, Transaction

consumer = Consumer("inventory")
STOCK = consumer.table("stock")
RESERVATIONS = consumer.table("reservations")

TIME_TO_PAY = timedelta(seconds=int(os.environ.get("PAYMENT_SECONDS", "1800")))
"""Time for which the stock of an order is reserved."""


class OrderLine(Struct, frozen=True):
    """One line of an order. `unit_price` is in minor units of the order's currency."""

    sku: str
    quantity: Annotated[int, Meta(ge=1)]
    unit_price: Annotated[int, Meta(ge=0)]


class OrderPlaced(Struct, frozen=True):
    """A customer has placed an order."""

    order_id: str
    email: str
    payment_method: str
    currency: str
    lines: Annotated[tuple[OrderLine, ...], Meta(min_length=1)]


class StockReserved(Struct, frozen=True):
    """Every article is reserved. `amount` must be paid, in minor units of the currency."""

    order_id: str
    email: str
    payment_method: str
    currency: str
    amount: int


class StockRefused(Struct, frozen=True):
    """An article is out of stock, and nothing of the order was reserved."""

    order_id: str
    email: str


class PaymentOverdue(Struct, frozen=True):
    """The time to pay an order is over. `amount` is in minor units of the currency."""

    order_id: str
    email: str
    currency: str
    amount: int


class PaymentEnded(Struct, frozen=True):
    """The end of a payment; the event's type says which."""

    order_id: str


class OutOfStock(Refusal):
    """The stock of an article is less than the order asks for."""

    def __init__(self, sku: str) -> None:
        self.sku = sku
        super().__init__(f"{sku} is out of stock")


@consumer.handles("order.placed", OrderPlaced)
@consumer.handles("order.submitted", OrderPlaced)
def reserve(event: OrderPlaced, tx: Transaction) -> None:
    """Take every article of the order out of stock for the time to pay; the condition is the check.

    Whether the order was paid in time is for the consumer of `payment.overdue` to look up.
    """
    quantities = _quantities(event)
    for sku, quantity in quantities.items():
        tx.update(
            STOCK,
            {"sku": sku},
            add={"available": -quantity},
            condition=Attr("available").gte(quantity),
            otherwise=OutOfStock(sku),
        )
    tx.put(
        RESERVATIONS,
        {"order_id": event.order_id, "status": "reserved", "quantities": dict(quantities)},
    )
    amount = sum(line.quantity * line.unit_price for line in event.lines)
    tx.publish(
        "stock.reserved",
        StockReserved(event.order_id, event.email, event.payment_method, event.currency, amount),
        subject=event.order_id,
    )
    tx.publish(
        "payment.overdue",
        PaymentOverdue(event.order_id, event.email, event.currency, amount),
        subject=event.order_id,
        after=TIME_TO_PAY,
    )


@consumer.rejects(OutOfStock)
def refuse(event: OrderPlaced, refusal: OutOfStock, tx: Transaction) -> None:
    """Record that the order was refused, and which article is out of stock."""
    tx.put(
        RESERVATIONS,
        {"order_id": event.order_id, "status": "refused", "out_of_stock": refusal.sku},
    )
    tx.publish("stock.refused", StockRefused(event.order_id, event.email), subject=event.order_id)


@consumer.handles("payment.captured", PaymentEnded)
def sell(event: PaymentEnded, tx: Transaction) -> None:
    """Sell the reserved articles."""
    _end(event, "sold", tx)


@consumer.handles("payment.declined", PaymentEnded)
@consumer.handles("order.cancelled", PaymentEnded)
def release(event: PaymentEnded, tx: Transaction) -> None:
    """Put the reserved articles back into stock, if the reservation still holds them."""
    reservation = tx.get(RESERVATIONS, {"order_id": event.order_id}) or {}
    _end(event, "released", tx)
    for sku, quantity in reservation.get("quantities", {}).items():
        tx.update(STOCK, {"sku": sku}, add={"available": quantity})


def _end(event: PaymentEnded, status: str, tx: Transaction) -> None:
    tx.update(
        RESERVATIONS,
        {"order_id": event.order_id},
        set={"status": status},
        condition=Attr("status").eq("reserved"),
    )


def _quantities(event: OrderPlaced) -> Counter[str]:
    """Return the quantity of each article: a transaction takes one action for each item."""
    quantities: Counter[str] = Counter()
    for line in event.lines:
        quantities[line.sku] += line.quantity
    return quantities


lambda_handler = consumer.lambda_handler
