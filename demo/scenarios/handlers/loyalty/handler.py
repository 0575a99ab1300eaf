"""Counts the orders that were placed: the consumer that the scenario removes."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("loyalty")
POINTS = consumer.table("points")


class OrderPlaced(Struct, frozen=True):
    """A customer has placed an order."""

    order_id: str


@consumer.handles("order.placed", OrderPlaced)
def count(event: OrderPlaced, tx: Transaction) -> None:
    """Give a point for the order."""
    tx.update(POINTS, {"order_id": event.order_id}, add={"points": 1})


lambda_handler = consumer.lambda_handler
