"""Payments: the provider's book of charges against the orders and the payments table."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from demo.audit.evidence import Evidence, Item, Manifest, number, text
from demo.audit.findings import Findings
from demo.audit.orders import expected_end

_Charges = Sequence[Mapping[str, Any]]


def audit_payments(manifest: Manifest, evidence: Evidence, findings: Findings) -> None:
    """Check that every paid order was charged once with its amount, and no other order."""
    charges: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for charge in evidence.charges:
        if charge["status"] == "succeeded":
            charges[charge["metadata"].get("order_id", "")].append(charge)
    findings.charges = sum(map(len, charges.values()))
    payments = evidence.by_key("payments", "order_id")
    known = set()
    for order in manifest["orders"]:
        name = order["order_id"]
        known.add(name)
        _audit_charges(order, charges.get(name, []), findings)
        _audit_payment(order, payments.get(name, {}), findings)
    # A charge without an order is one charge too many.
    strangers = sum(len(found) for name, found in charges.items() if name not in known)
    findings.double_charges += strangers


def _audit_charges(order: Manifest, charges: _Charges, findings: Findings) -> None:
    expected = int(expected_end(order) == "paid")
    findings.count(len(charges), expected)
    findings.double_charges += max(0, len(charges) - expected)
    findings.balance_error += sum(abs(charge["amount"] - order["total"]) for charge in charges)


def _audit_payment(order: Manifest, payment: Item, findings: Findings) -> None:
    """Check that the payment's status agrees with the order's final status."""
    written = {"paid": "captured", "declined": "declined", "refused": ""}[expected_end(order)]
    findings.unfinished += text(payment, "status") != written
    if written == "declined":
        findings.count(int(text(payment, "status") == written))
    if payment:
        findings.balance_error += abs(number(payment, "amount") - order["total"])
