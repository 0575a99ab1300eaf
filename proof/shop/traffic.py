"""Traffic: the orders of a run, some of them sent twice or with other content."""

import json
import random
from dataclasses import asdict, dataclass
from typing import Any

from proof.ordered.traffic import Entries
from proof.webhooks.traffic import Story

STOCK = {"apple": 7, "pear": 3}
"""Initial stock: so little that a few orders take all of it."""
PRICE = 100
NONSENSE = "{"


@dataclass(frozen=True, slots=True)
class Order:
    """An order.

    Attributes:
        copies: number of messages with its event.
        conflicts: number of further events with its id and one more piece.
        processed: whether the provider reports the outcome of the charge only later.
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
        """Return the event, or a conflicting one with more pieces."""
        quantity = self.quantity + more
        card = "pm_card_chargeDeclined" if self.declined else "pm_card_visa"
        data = {
            "order_id": self.id,
            "customer_id": self.customer,
            "email": f"{self.id}@example.com",
            "payment_method": "pm_processed" if self.processed else card,
            "currency": "EUR",
            "lines": [{"sku": self.sku, "quantity": quantity, "unit_price": PRICE}],
            "total": quantity * PRICE,
        }
        event = {"specversion": "1.0", "id": f"e-{self.number}", "source": "/shop"}
        return json.dumps({**event, "type": "order.placed", "data": data})

    def bodies(self) -> list[str]:
        """Return every event that is sent."""
        return [self.body()] * self.copies + [self.body(more=1)] * self.conflicts


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of a run.

    Attributes:
        orders: the orders.
        nonsense: number of unreadable messages in the queue of `orders`.
        unreadable: number of dedup records with an unreadable outbox.
        entries: the traffic of the FIFO consumers, which then run in place of the shop.
        webhooks: the traffic of the webhook ingress, which then runs in place of the shop.
    """

    orders: tuple[Order, ...]
    nonsense: int = 0
    unreadable: int = 0
    entries: Entries | None = None
    webhooks: tuple[Story, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the traffic in the form that `read` takes."""
        return asdict(self)

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Traffic":
        """Return the traffic of a replay file."""
        orders = tuple(Order(**order) for order in content["orders"])
        entries = content.get("entries")
        return cls(
            orders,
            content["nonsense"],
            content.get("unreadable", 0),
            None if entries is None else Entries.read(entries),
            tuple(Story(**story) for story in content.get("webhooks", ())),
        )


def drawn(seed: int) -> Traffic:
    """Return random traffic of one to three orders."""
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
