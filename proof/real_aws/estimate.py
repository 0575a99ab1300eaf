"""Cost estimate of a run, by the formula of docs/costs.md."""

from collections.abc import Sequence
from typing import Any

from docs.tools.costs import (
    CUSTOM_METRIC,
    MILLION,
    Line,
    at_rest,
    custom_metrics,
    for_a_million,
    mapping_metrics,
)
from proof.real_aws.checks.audit import EVENTS, MESSAGES
from proof.real_aws.checks.queues import HOLDS
from proof.real_aws.checks.rollout import EVENTS as ROLLOUT_EVENTS
from proof.real_aws.checks.tables import HOT_EVENTS

HOURS = 2
"""Charged for what has a price by the month: longer than a run takes."""
MONTH_HOURS = 730
MESSAGES_SENT = MESSAGES + EVENTS + HOT_EVENTS + HOLDS + 2 * ROLLOUT_EVENTS + 20
"""With those that the consumers publish, and some of the smaller checks."""


def estimate(templates: Sequence[Any]) -> list[Line]:
    """Return the bill of a run: its share of the month at rest, and its messages one by one."""
    share = HOURS / MONTH_HOURS
    metrics = custom_metrics(*templates) + mapping_metrics(*templates)
    month = [*at_rest(*templates), Line("custom and mapping metrics", metrics, CUSTOM_METRIC)]
    sent = MESSAGES_SENT / MILLION
    return [
        *(Line(f"{line.name}, {HOURS} h", line.quantity * share, line.price) for line in month),
        *(
            Line(f"{line.name}, {MESSAGES_SENT} messages", line.quantity * sent, line.price)
            for line in for_a_million(batch=1, effect_seconds=HOLDS / MESSAGES_SENT)
        ),
    ]


def total(lines: Sequence[Line]) -> float:
    """Return the sum of a bill, in USD, rounded to cents upwards."""
    return round(sum(line.cost for line in lines) + 0.005, 2)
