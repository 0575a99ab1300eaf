"""Stores an order, and keeps its customer's account of how much was ordered."""

from typing import Annotated

from msgspec import Meta, Struct, to_builtins

from once import Consumer, Transaction

consumer = Consumer("orders")
ORDERS = consumer.table("orders")
CUSTOMERS = consumer.table("customers")


class Line(Struct, frozen=True):
    """One line of an order. `unit_price` is in minor units of the order's currency."""

    sku: str
    quantity: Annotated[int, Meta(ge=1)]
    unit_price: Annotated[int, Meta(ge=0)]


class OrderPlaced(Struct, frozen=True):
    """A customer has placed an order."""

    order_id: str
    customer_id: str
    currency: str
    lines: Annotated[tuple[Line, ...], Meta(min_length=1)]

    @property
    def total(self) -> int:
        """What the order costs, in minor units."""
        return sum(line.quantity * line.unit_price for line in self.lines)


@consumer.handles("order.placed", OrderPlaced)
def store(event: OrderPlaced, tx: Transaction) -> None:
    """Store the order, and count it for its customer."""
    tx.put(ORDERS, {**to_builtins(event), "total": event.total, "status": "placed"})
    tx.update(
        CUSTOMERS,
        {"customer_id": event.customer_id},
        "ADD orders_placed :one, amount_ordered :total",
        {":one": 1, ":total": event.total},
    )


lambda_handler = consumer.lambda_handler
