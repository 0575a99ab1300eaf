"""Dead letters: each has a reason that the manifest explains."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from demo.audit.evidence import Evidence, Manifest
from demo.audit.findings import Findings

_AUDITED = ("orders", "inventory")
"""Consumers that receive every message, so that every expected dead letter must exist."""

_UNREADABLE_REASONS = ("unparseable", "invalid-event", "invalid-data", "no-key", "too-large")


def audit_dead_letters(manifest: Manifest, evidence: Evidence, findings: Findings) -> set[str]:
    """Match dead letters with the manifest; return the orders of unknown e-mails."""
    orders = {order["order_id"] for order in manifest["orders"]}
    unsent: set[str] = set()
    for consumer, url in evidence.dead_letters.items():
        due = _due(manifest)
        for letter in evidence.messages(url):
            order = _unsent_order(consumer, letter)
            if order in orders:
                unsent.add(order)
            else:
                _explain(consumer, letter, due, findings)
        if consumer in _AUDITED:
            findings.lost += due.total()
    findings.quarantined_by_reason += Counter({"effect-unknown": len(unsent)})
    return unsent


def _due(manifest: Manifest) -> Counter[str]:
    """Return the expected dead letters of a consumer that receives every message."""
    due = Counter({order["event_id"]: int(order["conflicts"]) for order in manifest["orders"]})
    due.update(manifest["malformed"])
    return +due


def _explain(
    consumer: str, letter: Mapping[str, Any], due: Counter[str], findings: Findings
) -> None:
    reason = _attribute(letter, "once-reason")
    name = _name_of(letter["Body"], reason)
    if name not in due or _attribute(letter, "once-consumer") != consumer:
        findings.unexplained_dead_letters += 1
    elif due[name] > 0:  # a crash between quarantine and answer may leave a second copy
        due[name] -= 1
        findings.quarantined_by_reason[reason] += 1


def _unsent_order(consumer: str, letter: Mapping[str, Any]) -> str:
    """Return the order of a notification with an unknown effect; empty for other letters."""
    reasons = (consumer, _attribute(letter, "once-consumer"), _attribute(letter, "once-reason"))
    if reasons != ("notifications", "notifications", "effect-unknown"):
        return ""
    return str(json.loads(letter["Body"])["data"]["order_id"])


def _name_of(body: str, reason: str) -> str:
    """Return a letter's name in the manifest: an event id, or a malformed body's digest."""
    if reason == "key-conflict":
        return str(json.loads(body)["id"])
    if reason in _UNREADABLE_REASONS:
        return hashlib.sha256(body.encode()).hexdigest()
    return f"unexplained: {reason}"


def _attribute(letter: Mapping[str, Any], name: str) -> str:
    return str(letter.get("MessageAttributes", {}).get(name, {}).get("StringValue", ""))
