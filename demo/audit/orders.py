"""Orders: each is stored once, counted once for its customer, and has the expected status."""

from collections import Counter

from demo.audit.evidence import Evidence, Item, Manifest, number, text
from demo.audit.findings import Findings


def expected_end(order: Manifest) -> str:
    """Return the status at which an order must end."""
    if order["refused"]:
        return "refused"
    return "declined" if order["declined"] else "paid"


def audit_orders(manifest: Manifest, evidence: Evidence, findings: Findings) -> None:
    """Count each order by its customer's account: an order stored twice overwrites itself."""
    stored = evidence.by_key("orders", "order_id")
    customers = evidence.by_key("customers", "customer_id")
    findings.orders_stored = len(stored)
    for order in manifest["orders"]:
        found = stored.get(order["order_id"], {})
        _audit_account(order, found, customers.get(order["customer_id"], {}), findings)
        findings.unfinished += text(found, "status") != expected_end(order)
    _count_ends(Counter(text(order, "status") for order in stored.values()), findings)


def _audit_account(order: Manifest, stored: Item, account: Item, findings: Findings) -> None:
    times = number(account, "orders_placed")
    # An order without a total was never stored: setting its status creates the item too.
    findings.count(times if number(stored, "total") == order["total"] else 0)
    findings.balance_error += abs(number(account, "amount_ordered") - times * order["total"])


def _count_ends(ends: Counter[str], findings: Findings) -> None:
    findings.orders_paid = ends["paid"]
    findings.orders_refused = ends["refused"]
    findings.orders_declined = ends["declined"]
