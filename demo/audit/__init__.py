"""Audit: compares the messages that were sent with the state of every system.

In: a manifest and the evidence. Out: `Findings`. Used by the scenarios and `quiescence`.
`webhooks` has an audit of its own, of webhooks.
The audit imports no other code of this project. Attribute names are spelt out again on purpose: an
audit that used the library's names would not notice a wrong one.
"""

from demo.audit.evidence import Evidence, Manifest
from demo.audit.orders import Findings, audit, undelivered_events

__all__ = ["Evidence", "Findings", "Manifest", "audit", "undelivered_events"]
