"""The consumer of the library's contenders: one order and one put for each event."""

from msgspec import Struct, to_builtins

from once import Consumer, Key, Transaction

from .item import order_item


class OrderLine(Struct, frozen=True):
    """One line of an order; `unit_price` is in minor units."""

    sku: str
    quantity: int
    unit_price: int


class OrderPlaced(Struct, frozen=True):
    """A customer has placed an order."""

    order_id: str
    customer_id: str
    currency: str
    lines: tuple[OrderLine, ...]


_BY_EVENT = Key.event()


def consumer_of(name: str, key: Key = _BY_EVENT) -> Consumer:
    """Return a consumer that stores orders."""
    consumer = Consumer(name)
    orders = consumer.table("orders")

    @consumer.handles("order.placed", OrderPlaced, key=key)
    def store(event: OrderPlaced, tx: Transaction) -> None:
        tx.put(orders, order_item(to_builtins(event)))

    return consumer
