"""Manifest: the messages that were sent, as JSON for the audit."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from demo.traffic.sample_order import SOURCE, SampleOrder
from demo.traffic.traffic_plan import TrafficPlan


def build_manifest(
    plan: TrafficPlan, *, topic: str, consumers: Iterable[str], seconds: float
) -> dict[str, Any]:
    """Return the manifest of a plan that was sent.

    Args:
        plan: the plan.
        topic: the topic's ARN.
        consumers: names of the consumers that receive the messages.
        seconds: duration of the sending without waits.
    """
    sends, conflicts = plan.sends, Counter(plan.conflicts)
    return {
        "seed": plan.seed,
        "topic": topic,
        "consumers": list(consumers),
        "stock": dict(plan.stock),
        "orders": [_order(order, sends[order], conflicts[order]) for order in plan.orders],
        "malformed": [sha256(body.encode()).hexdigest() for body in plan.malformed],
        "sent": plan.messages,
        "seconds": round(seconds, 3),
    }


def _order(order: SampleOrder, sends: int, conflicts: int) -> dict[str, Any]:
    return {
        **asdict(order),
        "declined": order.declined,
        "source": SOURCE,
        "total": order.total,
        "sends": sends,
        "conflicts": conflicts,
    }
