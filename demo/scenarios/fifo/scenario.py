"""The scenario itself: sends movements while functions are killed, waits, audits and reports."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from demo.audit import Evidence
from demo.audit.evidence import Item
from demo.kills import kill_at_random
from demo.report import console, report_figures, step
from demo.scenarios import drawn_seed
from demo.scenarios.fifo.app import LINES
from demo.scenarios.fifo.movements import (
    EVENT_TYPE,
    Applied,
    Movement,
    MovementPlan,
    count_letters,
    count_order,
    inversions,
)
from demo.shop import Shop, subscribers

_NAMES = tuple(line.name for line in LINES)
_TABLES = ("accounts", "statements")
_ENTRIES = 10
_MOST_SHOWN = 20
_KILL_SECONDS = 1.5
_MOST_KILLS = 12
"""Each kill lets the message groups of a batch wait for a visibility timeout."""
_MINIMUM = {"resent": 100, "failed_once": 20, "functions_killed": 8}
_LABELS = {
    "sent": "movements sent",
    "groups": "accounts, each a message group",
    "resent": "sent once more",
    "resent_within_window": "of these within the topic's five minutes",
    "failed_once": "movements whose first attempt fails",
    "functions_killed": "function processes killed",
    "dead_lettered": "dead letters, each unreadable",
    "seconds": "seconds",
    "out_of_order": "out of order",
    "lost": "lost",
    "doubled": "doubled",
    "invented": "applied but never sent",
    "missing_dead_letters": "unreadable, and not dead-lettered",
    "unexplained_dead_letters": "unexplained dead letters",
}


def fifo(shop: Shop, deploy_seconds: float) -> bool:
    """Send movements of accounts under failures, and write `reports/fifo.json`.

    Returns:
        Whether each was applied once and in its account's order, and enough faults occurred.
    """
    started = time.monotonic()
    shop.shorten_visibility(*_NAMES)
    seed = drawn_seed()
    plan = MovementPlan.draw(Random(seed))
    evidence = replace(shop.evidence(), subscribers=subscribers(LINES))
    functions = shop.functions(*_NAMES)
    with kill_at_random(shop.aws, functions, every=_KILL_SECONDS, most=_MOST_KILLS) as killed:
        with step(f"sending {len(plan.messages)} messages (seed {seed})"):
            topic = shop.deployment.ordered_ingress_topic_arn or ""  # the lines of this app make it
            _publish(shop.aws.client("sns"), topic, plan.messages)
        shop.wait_until_processed(evidence, shop.queues(*_NAMES))
    with step("auditing"):
        figures, counts = _audit(plan, evidence)
    counts["functions_killed"] = killed.total()
    counts["seconds"] = round(time.monotonic() - started + deploy_seconds, 1)
    broken = ", ".join(_LABELS[name] for name, figure in figures.items() if figure)
    return report_figures(
        "fifo",
        "FIFO under failures, from the tables",
        _LABELS,
        {**counts, **figures},
        figures,
        good="each movement was applied once and in its order",
        bad=f"The guarantee is broken: {broken} must be 0.",
        minimum=_MINIMUM,
    )


def _publish(sns: Any, topic_arn: str, messages: Sequence[tuple[Movement, str]]) -> None:
    """Publish movements in their order, each with its deduplication id."""
    for start in range(0, len(messages), _ENTRIES):
        entries = [
            {
                "Id": str(number),
                "Message": movement.body,
                "MessageGroupId": movement.account,
                "MessageDeduplicationId": deduplication_id,
                "MessageAttributes": {"type": {"DataType": "String", "StringValue": EVENT_TYPE}},
            }
            for number, (movement, deduplication_id) in enumerate(
                messages[start : start + _ENTRIES]
            )
        ]
        answer = sns.publish_batch(TopicArn=topic_arn, PublishBatchRequestEntries=entries)
        if answer.get("Failed"):
            raise RuntimeError(f"SNS refused a movement: {answer['Failed']}")


def _audit(plan: MovementPlan, evidence: Evidence) -> tuple[dict[str, int], dict[str, float]]:
    """Return the figures that must be 0, and the size of the run."""
    queues = [evidence.dead_letters[name] for name in _NAMES]
    letters = [json.loads(each["Body"])["id"] for url in queues for each in evidence.messages(url)]
    tables = {name: _applied(evidence.items(name)) for name in _TABLES}
    for inversion in inversions(tables)[:_MOST_SHOWN]:
        console.print(f"[red]{inversion}")
    figures = count_order(plan.movements, list(tables.values()))
    counts: dict[str, float] = {
        "sent": len(plan.movements),
        "groups": len({each.account for each in plan.movements}),
        "resent": len(plan.within_window) + len(plan.after_window),
        "resent_within_window": len(plan.within_window),
        "failed_once": sum(each.fails for each in plan.movements),
        "dead_lettered": len(letters),
    }
    return {**figures, **count_letters(plan.movements, letters)}, counts


def _applied(items: Iterable[Item]) -> Applied:
    return {
        item["account_id"]["S"]: [int(each["N"]) for each in item["applied"]["L"]] for item in items
    }
