"""Stores an order, keeps its customer's account, and follows the order to its end."""

from typing import Annotated

from msgspec import Meta, Struct, to_builtins

from once import Consumer, Transaction

consumer = Consumer("orders")
ORDERS = consumer.table("orders")
CUSTOMERS = consumer.table("customers")


class OrderLine(Struct, frozen=True):
    """One line of an order. `unit_price` is in minor units of the order's currency."""

    sku: str
    quantity: Annotated[int, Meta(ge=1)]
    unit_price: Annotated[int, Meta(ge=0)]


class OrderPlaced(Struct, frozen=True):
    """A customer has placed an order."""

    order_id: str
    customer_id: str
    currency: str
    lines: Annotated[tuple[OrderLine, ...], Meta(min_length=1)]

    @property
    def total(self) -> int:
        """The price of the order, in minor units."""
        return sum(line.quantity * line.unit_price for line in self.lines)


class OrderEnded(Struct, frozen=True):
    """The end of an order; the event's type says which."""

    order_id: str


@consumer.handles("order.placed", OrderPlaced)
def store(event: OrderPlaced, tx: Transaction) -> None:
    """Store the order, and count it for its customer.

    Events overtake each other: the end of an order may arrive before the order itself.
    """
    tx.update(
        ORDERS,
        {"order_id": event.order_id},
        "SET customer_id = :customer, currency = :currency, #lines = :lines, #total = :total,"
        " #status = if_not_exists(#status, :placed)",
        {
            ":customer": event.customer_id,
            ":currency": event.currency,
            ":lines": to_builtins(event.lines),
            ":total": event.total,
            ":placed": "placed",
        },
        names={"#lines": "lines", "#total": "total", "#status": "status"},
    )
    tx.update(
        CUSTOMERS,
        {"customer_id": event.customer_id},
        "ADD orders_placed :one, amount_ordered :total",
        {":one": 1, ":total": event.total},
    )


@consumer.handles("payment.captured", OrderEnded)
def paid(event: OrderEnded, tx: Transaction) -> None:
    """The order is paid."""
    _end(event, "paid", tx)


@consumer.handles("payment.declined", OrderEnded)
def declined(event: OrderEnded, tx: Transaction) -> None:
    """The card was declined."""
    _end(event, "declined", tx)


@consumer.handles("stock.refused", OrderEnded)
def refused(event: OrderEnded, tx: Transaction) -> None:
    """There was not enough in stock."""
    _end(event, "refused", tx)


def _end(event: OrderEnded, status: str, tx: Transaction) -> None:
    tx.update(
        ORDERS,
        {"order_id": event.order_id},
        "SET #status = :status",
        {":status": status},
        names={"#status": "status"},
    )


lambda_handler = consumer.lambda_handler
