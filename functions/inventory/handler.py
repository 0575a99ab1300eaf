"""Reserves stock for every line of an order, or refuses the whole order."""

from collections import Counter
from typing import Annotated

from msgspec import Meta, Struct

from once import Consumer, Refusal, Transaction

consumer = Consumer("inventory")
STOCK = consumer.table("stock")
RESERVATIONS = consumer.table("reservations")


class Line(Struct, frozen=True):
    """One line of an order; what it costs is no matter of the stock."""

    sku: str
    quantity: Annotated[int, Meta(ge=1)]


class OrderPlaced(Struct, frozen=True):
    """A customer has placed an order."""

    order_id: str
    lines: Annotated[tuple[Line, ...], Meta(min_length=1)]


class OutOfStock(Refusal):
    """There is less of an article than the order asks for."""

    def __init__(self, sku: str) -> None:
        self.sku = sku
        super().__init__(f"{sku} is out of stock")


@consumer.handles("order.placed", OrderPlaced)
def reserve(event: OrderPlaced, tx: Transaction) -> None:
    """Take every article of the order out of stock; the condition is the check."""
    for sku, quantity in _quantities(event).items():
        tx.update(
            STOCK,
            {"sku": sku},
            "SET available = available - :quantity",
            {":quantity": quantity},
            condition="available >= :quantity",
            otherwise=OutOfStock(sku),
        )
    tx.put(RESERVATIONS, {"order_id": event.order_id, "status": "reserved"})


@consumer.rejects(OutOfStock)
def refuse(event: OrderPlaced, refusal: OutOfStock, tx: Transaction) -> None:
    """Record that the order was refused, and for want of what."""
    tx.put(
        RESERVATIONS,
        {"order_id": event.order_id, "status": "refused", "out_of_stock": refusal.sku},
    )


def _quantities(event: OrderPlaced) -> Counter[str]:
    """An article may stand on two lines, and a transaction takes one action an item."""
    quantities: Counter[str] = Counter()
    for line in event.lines:
        quantities[line.sku] += line.quantity
    return quantities


lambda_handler = consumer.lambda_handler
