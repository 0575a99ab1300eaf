"""The scenario itself: sends the waves, waits until everything is processed, audits and reports.

No run waits for days. Before each wave, the stored records are moved back in time by the hours
that have passed for the providers: dedup records and captures are then as old as they would be.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from random import Random

from demo.audit import Evidence
from demo.audit.webhooks import MUST_BE_ZERO, audit_webhooks
from demo.commands import run_once
from demo.console import console, print_failure, step
from demo.deployed_shop import collect_evidence, subscribers
from demo.payment_sandbox import PaymentSandbox
from demo.quiescence import wait_until_quiescent
from demo.report import has_enough_faults
from demo.scenarios import drawn_seed
from demo.scenarios.webhooks.app import RECEIPTS
from demo.scenarios.webhooks.evidence import forged_requests, run_figures, sent_webhooks
from demo.scenarios.webhooks.report import report_webhooks
from demo.scenarios.webhooks.sample_webhook import TYPES, Provider
from demo.scenarios.webhooks.tap import Tap
from demo.scenarios.webhooks.wave_run import WaveRun
from demo.scenarios.webhooks.webhook_plan import HANDSHAKES, WebhookPlan
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import DeployedWebhooks, Deployment
from once.schema import RELAY

APP = "python3 -m demo.scenarios.webhooks.app"
_CAPTURES = "captures"
_VISIBILITY_SECONDS = 10
"""Instead of 36 s and more: the messages of a killed function come again sooner."""
_TIMEOUT_SECONDS = 300.0
_MINIMUM = {
    "functions_killed": 8,
    "killed_requests": 4,
    "handshakes": HANDSHAKES,
    "conflicts": 3,
}
_REPLAY = (
    *("webhooks", "replay", "--standing", "conflict", "--type", TYPES[Provider.GITHUB]),
    *("--since", "5d", "--to-queue", RECEIPTS.name, "--rate", "50", "--yes"),
)
"""An operator's answer to a conflict of types: the event of the type that the provider sent."""


def webhooks(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, deploy_seconds: float
) -> bool:
    """Send webhooks of four providers under failures, and write `reports/webhooks.json`.

    Returns:
        Whether each became one event, no forged one was accepted, and enough faults occurred.
    """
    started = time.monotonic()
    ingress = _ingress(deployment)
    tap = Tap.subscribe(aws, deployment.events_topic_arn, RECEIPTS.events)
    _shorten_visibility(aws, deployment)
    seed = drawn_seed()
    plan = WebhookPlan.draw(Random(seed))
    run = _send(aws, deployment, ingress, plan, seed)
    run_once(aws, *_REPLAY)
    evidence = _evidence(aws, deployment, ingress, sandbox)
    _wait(aws, deployment, evidence)
    with step("auditing"):
        figures = {
            **run_figures(run.answers),
            **_audit(plan, run, evidence, tap),
            "resent": plan.resent,
            "replayed": plan.replayed,
            "altered_sent": len(plan.altered),
            "functions_killed": run.killed,
            "seconds": round(time.monotonic() - started + deploy_seconds, 1),
        }
    good = report_webhooks(figures, MUST_BE_ZERO)
    return good and has_enough_faults(figures, _MINIMUM, console)


def _ingress(deployment: Deployment) -> DeployedWebhooks:
    assert deployment.webhooks is not None  # noqa: S101 - the app of this scenario has one
    return deployment.webhooks


def _shorten_visibility(aws: EmbeddedAws, deployment: Deployment) -> None:
    shorter = {"VisibilityTimeout": str(_VISIBILITY_SECONDS)}
    for url in deployment.consumer(RECEIPTS.name).queue_urls:
        aws.client("sqs").set_queue_attributes(QueueUrl=url, Attributes=shorter)


def _send(
    aws: EmbeddedAws,
    deployment: Deployment,
    ingress: DeployedWebhooks,
    plan: WebhookPlan,
    seed: int,
) -> WaveRun:
    others = (deployment.consumer(RECEIPTS.name).function_name, f"{deployment.service}-{RELAY}")
    function = f"{deployment.service}-{ingress.identity}"
    turns = [each for other in others for each in (function, other)]
    run = WaveRun(aws, ingress, deployment.dedup_table, turns, Random(seed))
    with step(f"sending {sum(map(len, plan.waves))} requests (seed {seed})"):
        run.send(plan.waves)
    return run


def _evidence(
    aws: EmbeddedAws, deployment: Deployment, ingress: DeployedWebhooks, sandbox: PaymentSandbox
) -> Evidence:
    evidence = collect_evidence(aws, deployment, sandbox.url)
    tables = {**evidence.tables, _CAPTURES: ingress.captures}
    return replace(evidence, tables=tables, subscribers=subscribers([RECEIPTS]))


def _wait(aws: EmbeddedAws, deployment: Deployment, evidence: Evidence) -> None:
    urls = deployment.consumer(RECEIPTS.name).queue_urls
    with step("waiting until everything is processed") as shown:
        try:
            wait_until_quiescent(evidence, urls, timeout=_TIMEOUT_SECONDS, show=shown.show)
        except TimeoutError as error:
            print_failure(aws, error)


def _audit(plan: WebhookPlan, run: WaveRun, evidence: Evidence, tap: Tap) -> Mapping[str, int]:
    return audit_webhooks(
        sent_webhooks(plan.webhooks, run.answers),
        forged_requests(run.answers),
        captures=evidence.items(_CAPTURES),
        events=tap.drain(),
        applied=evidence.items(RECEIPTS.name),
    )
