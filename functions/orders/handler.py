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
@consumer.handles("order.submitted", OrderPlaced)  # through the door of checkout
def store(event: OrderPlaced, tx: Transaction) -> None:
    """Store the order, and count it for its customer.

    Events overtake each other: the end of an order may arrive before the order itself.
    """
    tx.update(
        ORDERS,
        {"order_id": event.order_id},
        set={
            "customer_id": event.customer_id,
            "currency": event.currency,
            "lines": to_builtins(event.lines),
            "total": event.total,
        },
        if_not_exists={"status": "placed"},
    )
    tx.update(
        CUSTOMERS,
        {"customer_id": event.customer_id},
        add={"orders_placed": 1, "amount_ordered": event.total},
    )


@consumer.handles("payment.captured", OrderEnded)
def paid(event: OrderEnded, tx: Transaction) -> None:
    """The order is paid."""
    _end(event, "paid", tx)


@consumer.handles("payment.declined", OrderEnded)
def declined(event: OrderEnded, tx: Transaction) -> None:
    """The card was declined."""
    _end(event, "declined", tx)


@consumer.handles("order.cancelled", OrderEnded)
def cancelled(event: OrderEnded, tx: Transaction) -> None:
    """The order was not paid in time."""
    _end(event, "cancelled", tx)


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
    final = {"status": "refunded", "final_status": "refunded"} if charge.refunded else {}
    tx.update(ORDERS, key, set={"amount_refunded": charge.amount_refunded, **final})


def _end(event: OrderEnded, status: str, tx: Transaction) -> None:
    key = {"order_id": event.order_id}
    if "final_status" not in (tx.get(ORDERS, key) or {}):  # a refund may have overtaken it
        tx.update(ORDERS, key, set={"status": status})


lambda_handler = consumer.lambda_handler
