"""Scenario `faults`: 500 orders with every kind of fault, processed to the end and audited."""

import secrets

from demo.audit import audit
from demo.console import console, step
from demo.deployed_shop import collect_evidence
from demo.payment_sandbox import FaultRates, PaymentFault, PaymentSandbox
from demo.report import has_enough_faults, print_verdict, write_report
from demo.run import send_traffic
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import Deployment

_TRAFFIC = ("--count", "500", "--duplicates", "30%", "--conflicts", "5", "--malformed", "5",
            "--refusals", "10", "--declines", "15")  # fmt: skip
_SHARES = {
    PaymentFault.DROP: 0.18,
    PaymentFault.DROP_BEFORE: 0.03,
    PaymentFault.DELAY: 0.03,
    PaymentFault.ERROR_BEFORE: 0.03,
    PaymentFault.ERROR_AFTER: 0.03,
    PaymentFault.UNAVAILABLE: 0.03,
    PaymentFault.RATE_LIMITED: 0.03,
    PaymentFault.HOLD_BEFORE: 0.05,
    PaymentFault.HOLD_AFTER: 0.05,
}
"""Share of the charges by fault. The process that waits for a held charge is killed."""

_MAX_HELD = {PaymentFault.HOLD_BEFORE: 12, PaymentFault.HOLD_AFTER: 12}
_MINIMUM = {"charge_answers_dropped": 50, "functions_killed": 20}


def faults(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, deploy_seconds: float
) -> bool:
    """Send orders under faults, and write `reports/demo.json`.

    Returns:
        Whether the audit is clean and enough faults occurred.
    """
    sandbox.faults = FaultRates(seed=secrets.randbits(32), shares=_SHARES, limits=_MAX_HELD)
    run = send_traffic(aws, sandbox, deployment, _TRAFFIC)
    with step("auditing"):
        findings = audit(run.manifest, collect_evidence(aws, deployment, sandbox.url))
    figures = {
        "charge_answers_dropped": sandbox.fired[PaymentFault.DROP],
        "functions_killed": run.killed,
        "messages_per_second": round(findings.deliveries / run.seconds, 1),
        "deploy_seconds": round(deploy_seconds, 1),
    }
    written = write_report(findings, figures, console)
    passed = has_enough_faults(figures, _MINIMUM, console) and findings.clean
    return print_verdict(written, console, passed=passed)
