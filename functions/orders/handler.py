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


class ChargeMetadata(Struct, frozen=True):
    """Metadata that the shop gave the charge."""

    order_id: str


class RefundedCharge(Struct, frozen=True):
    """A charge of Stripe. `amount_refunded` is the sum of its refunds so far, in minor units."""

    amount_refunded: Annotated[int, Meta(ge=1)]
    refunded: bool
    """Whether the whole amount is refunded."""
    metadata: ChargeMetadata


class ChargeData(Struct, frozen=True):
    """The part of Stripe's webhook that holds the charge."""

    object: RefundedCharge


class ChargeRefunded(Struct, frozen=True):
    """A person has refunded a charge, or a part of it, at Stripe."""

    data: ChargeData


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


@consumer.handles("stripe.charge.refunded", ChargeRefunded)
def refunded(event: ChargeRefunded, tx: Transaction) -> None:
    """Note the amount that was refunded. A full refund is the last status of an order."""
    charge = event.data.object
    key = {"order_id": charge.metadata.order_id}
    known = (tx.get(ORDERS, key) or {}).get("amount_refunded", 0)
    if charge.amount_refunded <= known:  # a later refund has overtaken this one
        return
    amount = {":amount": charge.amount_refunded}
    if charge.refunded:
        tx.update(
            ORDERS,
            key,
            "SET amount_refunded = :amount, #status = :status, final_status = :status",
            {**amount, ":status": "refunded"},
            names={"#status": "status"},
        )
    else:
        tx.update(ORDERS, key, "SET amount_refunded = :amount", amount)


def _end(event: OrderEnded, status: str, tx: Transaction) -> None:
    tx.update(
        ORDERS,
        {"order_id": event.order_id},
        "SET #status = if_not_exists(final_status, :status)",  # a refund may have overtaken it
        {":status": status},
        names={"#status": "status"},
    )


lambda_handler = consumer.lambda_handler
