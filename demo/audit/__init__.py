"""The audit: what happened, read from every system by code that shares none with the library.

It imports nothing of this project. Attribute names are spelt out again on purpose: an audit that
asked the library what a dedup record looks like would agree with it about anything.
"""

from demo.audit.dead_letters import audit_dead_letters
from demo.audit.evidence import Manifest, Place, delivered
from demo.audit.findings import Findings
from demo.audit.mail import audit_mail
from demo.audit.orders import audit_orders
from demo.audit.payments import audit_payments
from demo.audit.published_events import audit_steps, on_their_way
from demo.audit.stock import audit_stock

__all__ = ["Findings", "Manifest", "Place", "audit", "on_their_way"]


def audit(manifest: Manifest, place: Place) -> Findings:
    """Compare what was sent with what tables, queues, provider and mailboxes hold.

    Args:
        manifest: what was sent: the file that `python -m demo send --manifest` writes.
        place: where to look.
    """
    findings = Findings(sent=manifest["sent"], distinct=len(manifest["orders"]))
    audit_orders(manifest, place, findings)
    audit_stock(manifest, place, findings)
    audit_payments(manifest, place, findings)
    unsent = audit_dead_letters(manifest, place, findings)
    audit_mail(manifest, place, unsent, findings)
    audit_steps(place, findings)
    findings.deliveries = sum(delivered(place.logs, name) for name in place.log_groups.values())
    return findings
