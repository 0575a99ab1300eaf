"""A consumer with one handler, beside `one_command`."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("one_handler")
ORDERS = consumer.table("orders")


class Order(Struct, frozen=True):
    """The data of an event."""

    order_id: str


@consumer.handles("order.placed", Order)
def store(event: Order, tx: Transaction) -> None:
    tx.put(ORDERS, {"order_id": event.order_id})


lambda_handler = consumer.lambda_handler
