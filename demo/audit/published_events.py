"""Published events: each event that a consumer committed has reached its subscribers."""

import json
from collections import Counter

from demo.audit.evidence import Evidence, text
from demo.audit.findings import Findings


def audit_published_events(evidence: Evidence, findings: Findings) -> None:
    """Count published events that have not reached a subscriber as lost."""
    findings.lost += undelivered_events(evidence)


def undelivered_events(evidence: Evidence) -> int:
    """Return the number of deliveries of published events that have no dedup record yet."""
    published: Counter[str] = Counter()
    recorded: Counter[tuple[str, str]] = Counter()
    for record in evidence.items("dedup"):
        if "dedup_key" in record:  # a sequence item: its events are in a dedup record as well
            continue
        published.update(event["type"] for event in json.loads(text(record, "outbox") or "[]"))
        recorded[text(record, "pk").split("#")[0], text(record, "event_type")] += 1
    return sum(
        max(0, count - recorded[consumer, event_type])
        for event_type, count in published.items()
        for consumer in evidence.subscribers.get(event_type, ())
    )
