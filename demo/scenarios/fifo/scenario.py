"""The scenario itself: sends movements while functions are killed, waits, audits and reports."""

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from demo.audit import Evidence
from demo.audit.evidence import Item
from demo.console import console, print_failure, step
from demo.deployed_shop import collect_evidence, subscribers
from demo.payment_sandbox import PaymentSandbox
from demo.periodic_kills import kill_periodically
from demo.quiescence import wait_until_quiescent
from demo.report import has_enough_faults
from demo.scenarios import drawn_seed
from demo.scenarios.fifo.app import LINES
from demo.scenarios.fifo.movements import MovementPlan
from demo.scenarios.fifo.order_audit import Applied, count_letters, count_order, inversions
from demo.scenarios.fifo.publisher import publish
from demo.scenarios.fifo.report import report_order
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import Deployment
from once.schema import RELAY

APP = "python3 -m demo.scenarios.fifo.app"
_TABLES = ("accounts", "statements")
_VISIBILITY_SECONDS = 10
"""Instead of 36 s: the messages of a killed function come again sooner, in the same way."""
_TIMEOUT_SECONDS = 300.0
_MOST_SHOWN = 20
_KILL_SECONDS = 1.5
_MOST_KILLS = 12
"""Each kill lets the message groups of a batch wait for a visibility timeout."""
_MINIMUM = {"resent": 100, "failed_once": 20, "functions_killed": 8}


def fifo(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, deploy_seconds: float
) -> bool:
    """Send movements of accounts under failures, and write `reports/fifo.json`.

    Returns:
        Whether each was applied once and in its account's order, and enough faults occurred.
    """
    started = time.monotonic()
    _shorten_visibility(aws, deployment)
    seed = drawn_seed()
    plan = MovementPlan.draw(Random(seed))
    evidence = collect_evidence(aws, deployment, sandbox.url)
    names = [deployment.consumers[line.name].function_name for line in LINES]
    functions = [*names, f"{deployment.service}-{RELAY}"]
    with kill_periodically(aws, functions, period=_KILL_SECONDS, most=_MOST_KILLS) as kills:
        with step(f"sending {len(plan.messages)} messages (seed {seed})"):
            topic = deployment.ordered_ingress_topic_arn or ""  # the lines of this app make one
            publish(aws.client("sns"), topic, plan.messages)
        _wait(aws, deployment, evidence)
    with step("auditing"):
        figures, counts = _audit(plan, evidence)
    counts["functions_killed"] = kills.count
    counts["seconds"] = round(time.monotonic() - started + deploy_seconds, 1)
    report_order(figures, counts)
    return not any(figures.values()) and has_enough_faults(counts, _MINIMUM, console)


def _shorten_visibility(aws: EmbeddedAws, deployment: Deployment) -> None:
    shorter = {"VisibilityTimeout": str(_VISIBILITY_SECONDS)}
    for line in LINES:
        url = deployment.consumers[line.name].queue_url
        aws.client("sqs").set_queue_attributes(QueueUrl=url, Attributes=shorter)


def _wait(aws: EmbeddedAws, deployment: Deployment, evidence: Evidence) -> None:
    urls = [deployment.consumers[line.name].queue_url for line in LINES]
    known = replace(evidence, subscribers=subscribers(LINES))
    with step("waiting until everything is processed") as shown:
        try:
            wait_until_quiescent(known, urls, timeout=_TIMEOUT_SECONDS, show=shown.show)
        except TimeoutError as error:
            print_failure(aws, error)


def _audit(plan: MovementPlan, evidence: Evidence) -> tuple[dict[str, int], dict[str, float]]:
    """Return the figures that must be 0, and the size of the run."""
    queues = [evidence.dead_letters[line.name] for line in LINES]
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
