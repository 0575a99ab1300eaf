"""Scenario `outage`: the payment provider is down until messages are dead-lettered.

The dead letters are redriven once the provider is up again. The audit must then be clean.
"""

import secrets

from demo.audit import audit
from demo.commands import run_once
from demo.console import console, step
from demo.deployed_shop import collect_evidence
from demo.payment_sandbox import FaultRates, PaymentFault, PaymentSandbox
from demo.report import has_enough_faults, print_verdict, write_report
from demo.run import send_traffic, wait_until_processed
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.clients import depth
from once.ops.aws.deployment import Deployment

_TRAFFIC = ("--count", "60", "--duplicates", "30%", "--conflicts", "3", "--malformed", "5",
            "--refusals", "5", "--declines", "5")  # fmt: skip
_DOWN = {PaymentFault.UNAVAILABLE: 0.9, PaymentFault.DROP_BEFORE: 0.1}
"""Answers of the provider while it is down."""
_HELD_FIRST = [PaymentFault.HOLD_BEFORE] * 5
"""Last answers before the outage. The processes that wait for them are killed, so that charges
exist of which the service has no answer."""
_MINIMUM = {"functions_killed": 3, "dead_lettered": 30}


def outage(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, deploy_seconds: float
) -> bool:
    """Send orders during an outage, redrive the dead letters, and write `reports/outage.json`.

    Returns:
        Whether the audit is clean and enough faults occurred.
    """
    sandbox.script(*_HELD_FIRST)
    sandbox.faults = FaultRates(seed=secrets.randbits(32), shares=_DOWN)
    console.print("the payment provider is down")
    run = send_traffic(aws, sandbox, deployment, _TRAFFIC)
    dead = depth(aws.client("sqs"), deployment.consumers["payments"].dead_letter_url).total
    run_once(aws, "dlq", "list")
    sandbox.faults = FaultRates()
    console.print("the payment provider is up again")
    run_once(aws, "dlq", "redrive", "--consumer", "payments", "--rate", "50", "--yes")
    wait_until_processed(aws, sandbox, deployment)
    with step("auditing"):
        findings = audit(run.manifest, collect_evidence(aws, deployment, sandbox.url))
    figures = {
        "functions_killed": run.killed,
        "dead_lettered": dead,
        "deploy_seconds": round(deploy_seconds, 1),
    }
    written = write_report(findings, figures, console, "outage")
    passed = has_enough_faults(figures, _MINIMUM, console) and findings.clean
    return print_verdict(written, console, passed=passed)
