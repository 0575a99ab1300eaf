"""Stock: each article is reserved or sold once, and released if the order is declined."""

from collections import Counter
from collections.abc import Iterable, Mapping

from demo.audit.evidence import Evidence, Item, Manifest, number, text
from demo.audit.findings import Findings
from demo.audit.orders import expected_end

RESERVATION_STATUS = {"paid": "sold", "refused": "refused", "declined": "released"}
"""The status at which a reservation must end, by that of its order."""
_HOLDING = ("reserved", "sold")


def audit_stock(manifest: Manifest, evidence: Evidence, findings: Findings) -> None:
    """Compare stock moved with reservations; each order has an article of its own to count by."""
    shelf = evidence.by_key("stock", "sku")
    moved = {
        sku: initial - number(shelf.get(sku, {}), "available")
        for sku, initial in manifest["stock"].items()
    }
    reservations = evidence.by_key("reservations", "order_id")
    for order in manifest["orders"]:
        status = text(reservations.get(order["order_id"], {}), "status")
        _audit_reservation(order, status, moved, findings)
    held = _held(reservations.values())
    findings.stock_moved = sum(moved.values())
    findings.stock_balance_error = sum(abs(moved[sku] - held[sku]) for sku in moved)
    expected = _expected(manifest)
    findings.balance_error += sum(abs(moved[sku] - expected[sku]) for sku in moved)


def _audit_reservation(
    order: Manifest, status: str, moved: Mapping[str, int], findings: Findings
) -> None:
    own = order["lines"][0]
    times = moved[own["sku"]] // own["quantity"]
    end = RESERVATION_STATUS[expected_end(order)]
    findings.refused += status == "refused"
    findings.unfinished += status == "reserved"
    if end == "sold":
        findings.count(times if status == end else 0)
    else:
        findings.count(int(status == end))
        findings.doubled += abs(times)  # reserved although refused, or released more than once


def _held(reservations: Iterable[Item]) -> Counter[str]:
    """Return the quantities held by reservations, by SKU."""
    held: Counter[str] = Counter()
    for reservation in reservations:
        if text(reservation, "status") in _HOLDING:
            quantities = reservation.get("quantities", {}).get("M", {})
            held.update({sku: int(quantity["N"]) for sku, quantity in quantities.items()})
    return held


def _expected(manifest: Manifest) -> Counter[str]:
    """Return the quantities sold by orders that end as paid, by SKU."""
    expected: Counter[str] = Counter()
    for order in manifest["orders"]:
        for line in order["lines"] if expected_end(order) == "paid" else ():
            expected[line["sku"]] += line["quantity"]
    return expected
