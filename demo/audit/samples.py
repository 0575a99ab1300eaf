"""Sample events: each consumer that takes them has one dedup record for each distinct event."""

from collections import Counter
from collections.abc import Mapping

from demo.audit.evidence import Evidence, Manifest, count_fates, text
from demo.audit.findings import Findings, SampleFigures

_APPLIED = ("committed", "refused")
"""Outcomes that a function logs when an event took effect, and not for a duplicate."""


def audit_samples(manifest: Manifest, evidence: Evidence, findings: Findings) -> None:
    """Compare the sample events with the dedup records and the logs of their consumers.

    A consumer that logs more effects than it has dedup records has applied an event twice.
    """
    distinct = _distinct(manifest)
    records, typed = _records(evidence)
    for consumer in sorted({name for name, _ in distinct}):
        fates = count_fates(evidence.logs, evidence.log_groups[consumer])
        types = {kind: count for (name, kind), count in distinct.items() if name == consumer}
        figures = SampleFigures(
            received=fates.total(),
            distinct=sum(types.values()),
            doubled=max(0, sum(fates[each] for each in _APPLIED) - records[consumer]),
            lost=sum(max(0, n - typed[consumer, kind]) for kind, n in types.items()),
        )
        findings.samples[consumer] = figures
        findings.doubled += figures.doubled
        findings.lost += figures.lost


def _distinct(manifest: Manifest) -> Mapping[tuple[str, str], int]:
    """Return the number of distinct sample events by consumer and type."""
    return {
        (consumer, sample["type"]): sample["distinct"]
        for sample in manifest.get("samples", ())
        for consumer in sample["consumers"]
    }


def _records(evidence: Evidence) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Return the number of dedup records by consumer, and by consumer and event type."""
    records: Counter[str] = Counter()
    typed: Counter[tuple[str, str]] = Counter()
    for record in evidence.items("dedup"):
        if "dedup_key" in record:  # a sequence item
            continue
        consumer = text(record, "pk").split("#")[0]
        records[consumer] += 1
        typed[consumer, text(record, "event_type")] += 1
    return records, typed
