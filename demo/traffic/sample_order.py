"""Sample order: the order, its `order.placed` event, and a conflicting version of it."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

SOURCE = "/ops/send"
EVENT_TYPE = "order.placed"
CARD = "pm_card_visa"
DECLINED_CARD = "pm_card_visa_chargeDeclined"
"""Payment methods of Stripe's test mode."""

_CURRENCY = "EUR"


@dataclass(frozen=True, slots=True)
class OrderLine:
    """A line of an order; `unit_price` in minor units of the currency."""

    sku: str
    quantity: int
    unit_price: int


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """An order and the event that places it; `refused` if a line of it is out of stock."""

    order_id: str
    customer_id: str
    email: str
    event_id: str
    lines: tuple[OrderLine, ...]
    refused: bool
    payment_method: str

    @property
    def declined(self) -> bool:
        """Whether the order carries a card that is declined."""
        return self.payment_method == DECLINED_CARD

    @property
    def total(self) -> int:
        """The order's total, in minor units."""
        return sum(line.quantity * line.unit_price for line in self.lines)

    @property
    def event(self) -> dict[str, Any]:
        """The CloudEvent, without a time: every delivery of the event has the same body."""
        return {
            "specversion": "1.0",
            "id": self.event_id,
            "source": SOURCE,
            "type": EVENT_TYPE,
            "subject": self.order_id,
            "datacontenttype": "application/json",
            "data": {
                "order_id": self.order_id,
                "customer_id": self.customer_id,
                "email": self.email,
                "payment_method": self.payment_method,
                "currency": _CURRENCY,
                "lines": [asdict(line) for line in self.lines],
            },
        }

    @property
    def body(self) -> str:
        """The message body that places the order."""
        return json.dumps(self.event)

    def conflicting(self) -> Self:
        """Return the order with the same event id and another quantity, as of a faulty producer."""
        own, *others = self.lines
        return replace(self, lines=(replace(own, quantity=own.quantity + 1), *others))
