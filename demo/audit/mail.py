"""E-mails: one for each order, or a dead letter with reason effect-unknown."""

from collections import Counter
from collections.abc import Collection

from demo.audit.evidence import Evidence, Manifest
from demo.audit.findings import Findings


def audit_mail(
    manifest: Manifest, evidence: Evidence, unsent: Collection[str], findings: Findings
) -> None:
    """Count the messages to each customer.

    Args:
        manifest: the messages.
        evidence: access to the systems.
        unsent: the orders whose notification was dead-lettered, since it is done at most once.
        findings: the figures.
    """
    sent = Counter(address for email in evidence.emails for address in email["To"])
    findings.emails = sent.total()
    for order in manifest["orders"]:
        found = sent[order["email"]]
        if found or order["order_id"] not in unsent:
            findings.count(found)
