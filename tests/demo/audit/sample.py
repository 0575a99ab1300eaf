"""Sample data of the audit: a manifest of four orders, and the findings of a run without faults."""

import json
from collections import Counter
from hashlib import sha256
from typing import Any

from demo.audit import Findings

PAID, IN_CONFLICT, REFUSED, DECLINED = NUMBERS = (1, 2, 3, 4)
"""The orders. The second is paid as well, although a conflicting event has the id of its event."""

OWN, SHARED = 3, 2
"""Quantities of each order: of an article of its own, and of one that others order as well."""

TOTAL = 700
BAD_BODY = "{"
CONFLICT = json.dumps({"id": "event-2"})
SUBSCRIBERS = {
    "stock.reserved": ["payments"],
    "stock.refused": ["orders", "notifications"],
    "payment.captured": ["orders", "inventory", "notifications"],
    "payment.declined": ["orders", "inventory", "notifications"],
}


def email(number: int) -> str:
    return f"customer-{number}@example.com"


def order(number: int) -> dict[str, Any]:
    sku = "scarce" if number == REFUSED else "shared"
    return {
        "order_id": f"order-{number}",
        "customer_id": f"customer-{number}",
        "email": email(number),
        "event_id": f"event-{number}",
        "total": TOTAL,
        "lines": [{"sku": f"own-{number}", "quantity": OWN}, {"sku": sku, "quantity": SHARED}],
        "refused": number == REFUSED,
        "declined": number == DECLINED,
        "conflicts": int(number == IN_CONFLICT),
    }


MANIFEST = {
    "sent": 9,
    "stock": {**{f"own-{number}": 100 for number in NUMBERS}, "shared": 100, "scarce": 0},
    "orders": [order(number) for number in NUMBERS],
    "malformed": [sha256(BAD_BODY.encode()).hexdigest()],
}
CLEAN = Findings(
    sent=9,
    distinct=4,
    orders_stored=4,
    orders_paid=2,
    orders_refused=1,
    orders_declined=1,
    stock_moved=2 * (OWN + SHARED),
    charges=2,
    emails=4,
    effects=4 + 4 + 3 + 4,  # stored; sold, refused or released; charged or declined; e-mailed
    refused=1,
    quarantined_by_reason=Counter({"unparseable": 2, "key-conflict": 2}),
)


def changes(findings: Findings) -> dict[str, int]:
    """Return the figures that differ from CLEAN, with the difference; quarantines by reason."""
    difference = _figures(findings)
    difference.subtract(_figures(CLEAN))
    return {name: change for name, change in difference.items() if change}


def _figures(findings: Findings) -> Counter[str]:
    figures = dict(vars(findings))
    del figures["samples"]
    return Counter({**figures.pop("quarantined_by_reason"), **figures})
