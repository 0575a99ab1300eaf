"""The audit: what happened, read from every system by code that shares none with the library.

It imports nothing of this project. Attribute names are spelt out again on purpose: an audit that
asked the library what a dedup record looks like would agree with it about anything.
"""

from demo.audit.dead_letters import audit_dead_letters
from demo.audit.evidence import Evidence, Manifest, count_deliveries
from demo.audit.findings import Findings
from demo.audit.mail import audit_mail
from demo.audit.orders import audit_orders
from demo.audit.payments import audit_payments
from demo.audit.published_events import audit_published_events, undelivered_events
from demo.audit.stock import audit_stock

__all__ = ["Evidence", "Findings", "Manifest", "audit", "undelivered_events"]


def audit(manifest: Manifest, evidence: Evidence) -> Findings:
    """Compare what was sent with what tables, queues, provider and mailboxes hold.

    Args:
        manifest: what was sent: the file that `python -m demo send --manifest` writes.
        evidence: where to look.
    """
    findings = Findings(sent=manifest["sent"], distinct=len(manifest["orders"]))
    audit_orders(manifest, evidence, findings)
    audit_stock(manifest, evidence, findings)
    audit_payments(manifest, evidence, findings)
    unsent = audit_dead_letters(manifest, evidence, findings)
    audit_mail(manifest, evidence, unsent, findings)
    audit_published_events(evidence, findings)
    findings.deliveries = sum(
        count_deliveries(evidence.logs, name) for name in evidence.log_groups.values()
    )
    return findings
