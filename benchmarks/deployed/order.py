"""The work of every contender: one order, and one put, for each event; and the deployed names."""

from collections.abc import Mapping
from typing import Any

from boto3.dynamodb.types import TypeSerializer
from msgspec import Struct, to_builtins

from once import Consumer, Key, Transaction

NAMES = ("nothing", "raw", "powertools", "ungrouped", "grouped")
NOTHING, RAW, POWERTOOLS, UNGROUPED, GROUPED = NAMES
"""The names under which the package is deployed."""
PLAIN_FUNCTION = PLAIN_TABLE = "verify-then-put"
"""Physical names of the plain webhook function and of its table."""
ORDERS = "orders"
"""The registry's name of the table."""
_SERIALIZER = TypeSerializer()
_BY_EVENT = Key.event()


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


def item_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item of an order, from the data of its event."""
    total = sum(line["quantity"] * line["unit_price"] for line in data["lines"])
    return {**{name: data[name] for name in OrderPlaced.__struct_fields__}, "total": total}


def serialized(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item of an order in DynamoDB's own JSON form."""
    return {name: _SERIALIZER.serialize(value) for name, value in item_of(data).items()}


def consumer_of(name: str, key: Key = _BY_EVENT) -> Consumer:
    """Return the library's consumer, which stores orders."""
    consumer = Consumer(name)
    orders = consumer.table(ORDERS)

    @consumer.handles("order.placed", OrderPlaced, key=key)
    def store(event: OrderPlaced, tx: Transaction) -> None:
        tx.put(orders, item_of(to_builtins(event)))

    return consumer
