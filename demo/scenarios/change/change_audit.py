"""Audit of a change: what was lost, doubled, or left unfinished on the way.

Like `demo.audit`, it shares no code with the library.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from demo.audit.evidence import Evidence, Manifest, number, text
from demo.audit.orders import RESERVATION_STATUS, Findings, expected_end

REMOVED = "loyalty"
"""The consumer that is removed; it gives a point for each order."""

Letter = tuple[str, str]
"""A dead letter: its consumer, and its order."""


@dataclass(frozen=True, kw_only=True)
class ChangeEvidence:
    """Facts about a change that the state of the systems after it does not show.

    Attributes:
        due: orders that were sent before the removal began, so that each must have its point.
        seen: dead letters that existed on the way.
        left: messages that are still in a queue, without the dead letters.
    """

    due: Collection[str]
    seen: Collection[Letter]
    left: int


def count_change(
    findings: Findings, manifest: Manifest, evidence: Evidence, change: ChangeEvidence
) -> dict[str, int]:
    """Return the figures that must be 0, by their key in the report."""
    items = evidence.by_key("points", "order_id").items()
    points = {name: number(item, "points") for name, item in items}
    ended = _ended(manifest, evidence)
    return {
        "lost": findings.lost + len({*change.due} - points.keys()),
        "doubled": findings.doubled + sum(count - 1 for count in points.values()),
        # The order of a lost letter lacks what the consumer of the letter does for it.
        "letters_lost": sum(
            order not in (points if consumer == REMOVED else ended)
            for consumer, order in change.seen
        ),
        "unfinished": findings.unfinished + findings.unexplained_dead_letters + change.left,
    }


def letters_of(consumer: str, messages: Iterable[Mapping[str, Any]]) -> set[Letter]:
    """Return the dead letters of a consumer, by the order that each is about."""
    return {(consumer, str(json.loads(each["Body"])["data"]["order_id"])) for each in messages}


def _ended(manifest: Manifest, evidence: Evidence) -> set[str]:
    """Return the orders of which every consumer has done its part."""
    orders = evidence.by_key("orders", "order_id")
    reservations = evidence.by_key("reservations", "order_id")
    return {
        order["order_id"]
        for order in manifest["orders"]
        if text(orders.get(order["order_id"], {}), "status") == expected_end(order)
        and text(reservations.get(order["order_id"], {}), "status")
        == RESERVATION_STATUS[expected_end(order)]
    }
