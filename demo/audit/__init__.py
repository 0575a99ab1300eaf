"""Audit: compares the messages that were sent with the state of every system.

In: a manifest and the evidence. Out: `Findings`. Used by the scenarios, the soak and `quiescence`.
`webhooks` has an audit of its own, of webhooks.
The audit imports no other code of this project. Attribute names are spelt out again on purpose: an
audit that used the library's names would not notice a wrong one.
"""

from demo.audit.dead_letters import audit_dead_letters
from demo.audit.evidence import Evidence, Manifest, count_deliveries
from demo.audit.findings import Findings
from demo.audit.mail import audit_mail
from demo.audit.orders import audit_orders
from demo.audit.payments import audit_payments
from demo.audit.published_events import audit_published_events, undelivered_events
from demo.audit.samples import audit_samples
from demo.audit.stock import audit_stock

__all__ = ["Evidence", "Findings", "Manifest", "audit", "undelivered_events"]


def audit(manifest: Manifest, evidence: Evidence) -> Findings:
    """Compare the messages with tables, queues, payment provider and mailboxes.

    Args:
        manifest: the messages, as `python -m demo send --manifest` writes them.
        evidence: access to the systems.
    """
    findings = Findings(sent=manifest["sent"], distinct=len(manifest["orders"]))
    audit_orders(manifest, evidence, findings)
    audit_stock(manifest, evidence, findings)
    audit_payments(manifest, evidence, findings)
    unsent = audit_dead_letters(manifest, evidence, findings)
    audit_mail(manifest, evidence, unsent, findings)
    audit_published_events(evidence, findings)
    audit_samples(manifest, evidence, findings)
    findings.deliveries = sum(
        count_deliveries(evidence.logs, name) for name in evidence.log_groups.values()
    )
    return findings
