"""Takes orders over HTTP: each key of a client places one order, and is answered the same."""

from typing import Annotated

from msgspec import Meta, Struct

from once import Answer, Commands, Problem, Refusal, Scope, Transaction, absent

api = Commands("checkout")
ORDERS = api.table("orders")


class OrderLine(Struct, frozen=True):
    """One line of an order. `unit_price` is in minor units of the order's currency."""

    sku: str
    quantity: Annotated[int, Meta(ge=1)]
    unit_price: Annotated[int, Meta(ge=0)]


class PlaceOrder(Struct, frozen=True):
    """An order of a customer."""

    order_id: Annotated[str, Meta(min_length=1)]
    customer_id: str
    email: str
    payment_method: str
    currency: str
    lines: Annotated[tuple[OrderLine, ...], Meta(min_length=1)]


class OrderAccepted(Struct, frozen=True):
    """The order is accepted. Stock and payment follow."""

    order_id: str


class OrderExists(Refusal):
    """There is an order with this id, placed under another key."""


@api.handles("place-order", PlaceOrder)
def place(command: PlaceOrder, tx: Transaction) -> Answer:
    """Accept the order; the consumers of its event do the rest."""
    tx.put(
        ORDERS,
        {"order_id": command.order_id, "customer_id": command.customer_id},
        condition=absent,
        otherwise=OrderExists(),
    )
    tx.publish("order.submitted", command, subject=command.order_id)
    return Answer(OrderAccepted(command.order_id), status=202)


@api.rejects(OrderExists)
def refuse(command: PlaceOrder, refusal: OrderExists, tx: Transaction) -> Problem:
    """Say that the id is taken."""
    return Problem("There is an order with this id", detail="Send another order_id.")


lambda_handler = api.http({"POST /orders": "place-order"}, scope=Scope.iam())
