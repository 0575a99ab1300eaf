"""Gives a point for each order: the consumer that a change removes."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("loyalty")
POINTS = consumer.table("points")


class OrderPlaced(Struct, frozen=True):
    order_id: str


@consumer.handles("order.placed", OrderPlaced)
def count(event: OrderPlaced, tx: Transaction) -> None:
    tx.update(POINTS, {"order_id": event.order_id}, "ADD points :one", {":one": 1})


lambda_handler = consumer.lambda_handler
