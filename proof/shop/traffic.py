"""What is sent to the shop: orders, some of them again, some with other content, and nonsense."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

STOCK = {"apple": 7, "pear": 3}
"""What there is of each article at first; a few orders take it all."""
PRICE = 100
NONSENSE = "{"


@dataclass(frozen=True, slots=True)
class Order:
    """An order, and how often it is sent.

    `conflicts` says how many further events have its id and ask for one piece more. Of a charge
    that is `processed`, the provider itself knows only later what comes of it.
    """

    number: int
    customer: str
    sku: str
    quantity: int
    declined: bool
    copies: int
    conflicts: int
    processed: bool = False

    @property
    def id(self) -> str:
        """The order's id."""
        return f"o-{self.number}"

    def body(self, *, more: int = 0) -> str:
        """Return the event, of the order or of another one under the same id."""
        quantity = self.quantity + more
        data = {
            "order_id": self.id,
            "customer_id": self.customer,
            "email": f"{self.id}@example.com",
            "payment_method": self._payment_method,
            "currency": "EUR",
            "lines": [{"sku": self.sku, "quantity": quantity, "unit_price": PRICE}],
            "total": quantity * PRICE,
        }
        event = {
            "specversion": "1.0",
            "id": f"e-{self.number}",
            "source": "/shop",
            "type": "order.placed",
            "data": data,
        }
        return json.dumps(event)

    @property
    def _payment_method(self) -> str:
        if self.processed:
            return "pm_processed"
        return "pm_card_chargeDeclined" if self.declined else "pm_card_visa"

    def bodies(self) -> list[str]:
        """Return every event that is sent."""
        return [self.body()] * self.copies + [self.body(more=1)] * self.conflicts


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is sent: orders, and how many bodies that nobody can read to the queue of `orders`.

    `unreadable` says how many records have an outbox that the relay cannot read.
    """

    orders: tuple[Order, ...]
    nonsense: int = field(default=0)
    unreadable: int = field(default=0)

    def as_json(self) -> dict[str, Any]:
        """Return what `Traffic.read` makes it of again."""
        orders = [{name: getattr(o, name) for name in Order.__slots__} for o in self.orders]
        return {"orders": orders, "nonsense": self.nonsense, "unreadable": self.unreadable}

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Traffic":
        """Return the traffic that was written as JSON."""
        orders = tuple(Order(**order) for order in content["orders"])
        return cls(orders, content["nonsense"], content.get("unreadable", 0))


def drawn(seed: int) -> Traffic:
    """Return the traffic of a seed: one to three orders."""
    draw = random.Random(f"traffic {seed}")
    orders = tuple(
        Order(
            number,
            customer=draw.choice(["c-1", "c-2"]),
            sku=draw.choice([*STOCK]),
            quantity=draw.choice([1, 2, 4]),
            declined=draw.random() < 0.2,
            copies=draw.choice([1, 1, 2, 3]),
            conflicts=int(draw.random() < 0.1),
        )
        for number in range(draw.choice([1, 1, 2, 3]))
    )
    return Traffic(orders, nonsense=int(draw.random() < 0.1))
