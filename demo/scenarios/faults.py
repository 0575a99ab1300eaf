"""`make demo`: deploy, send orders with every kind of fault, wait until at rest, audit."""

import secrets
import subprocess
import time
from collections.abc import Callable
from enum import StrEnum

from demo.audit import audit
from demo.deployed_shop import deploy_service, place_of
from demo.payment_sandbox import Fault, Faults, PaymentSandbox, payment_sandbox
from demo.report import report
from demo.run import console, enough, explain, send, step
from demo.scenarios.hostile import APP as HOSTILE_APP
from demo.scenarios.hostile import hostile
from demo.scenarios.outage import outage
from emulator.child_processes import ProcessFailed
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from once.ops.aws.deployment import Deployment

TRAFFIC = ("--count", "500", "--duplicates", "30%", "--conflicts", "5", "--malformed", "5",
           "--refusals", "10", "--declines", "15")  # fmt: skip
SHARES = {
    Fault.DROP: 0.18,
    Fault.DROP_BEFORE: 0.03,
    Fault.DELAY: 0.03,
    Fault.ERROR_BEFORE: 0.03,
    Fault.ERROR_AFTER: 0.03,
    Fault.UNAVAILABLE: 0.03,
    Fault.RATE_LIMITED: 0.03,
    Fault.HOLD_BEFORE: 0.05,
    Fault.HOLD_AFTER: 0.05,
}
"""How many of the charges meet which fault; those that are held lose the process that waits."""

KILLS = {Fault.HOLD_BEFORE: 12, Fault.HOLD_AFTER: 12}
LEAST = {"charge_answers_dropped": 50, "functions_killed": 20}


class Scenario(StrEnum):
    """What goes wrong."""

    FAULTS = "faults"
    """Everything, a little: duplicates, lost answers, killed functions."""
    OUTAGE = "outage"
    """The payment provider is down until messages are dead-lettered; then they are sent back."""
    HOSTILE = "hostile"
    """Poison, bombs, forgeries and fatal messages ahead of healthy ones."""


def demo(scenario: Scenario, *, keep: bool) -> int:
    """Run the demo; return the exit status, 0 only if the audit is clean after enough faults.

    Args:
        scenario: what goes wrong.
        keep: leave the embedded AWS running afterwards, until Ctrl-C.
    """
    plays = {Scenario.FAULTS: _faults, Scenario.OUTAGE: outage, Scenario.HOSTILE: hostile}
    app = HOSTILE_APP if scenario is Scenario.HOSTILE else None
    with payment_sandbox() as sandbox, embedded_aws() as aws:
        try:
            good = _deploy_and_play(aws, sandbox, plays[scenario], app)
        except (subprocess.CalledProcessError, ProcessFailed) as error:
            explain(aws, error)
            return 1
        if keep:
            _stay(aws)
    return 0 if good else 1


Play = Callable[[EmbeddedAws, PaymentSandbox, Deployment, float], bool]


def _deploy_and_play(
    aws: EmbeddedAws, sandbox: PaymentSandbox, play: Play, app: str | None
) -> bool:
    with step("deploying: cdk bootstrap, cdk deploy"):
        started = time.monotonic()
        deployment = deploy_service(aws, sandbox.url, app=app)
        deploy_seconds = time.monotonic() - started
    return play(aws, sandbox, deployment, deploy_seconds)


def _faults(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, deploy_seconds: float
) -> bool:
    sandbox.faults = Faults(seed=secrets.randbits(32), shares=SHARES, most=KILLS)
    run = send(aws, sandbox, deployment, TRAFFIC)
    with step("auditing"):
        findings = audit(run.manifest, place_of(aws, deployment, sandbox.url))
    more = {
        "charge_answers_dropped": sandbox.fired[Fault.DROP],
        "functions_killed": run.killed,
        "messages_per_second": round(findings.deliveries / run.seconds, 1),
        "deploy_seconds": round(deploy_seconds, 1),
    }
    report(findings, more, console)
    return findings.clean and enough(more, LEAST)


def _stay(aws: EmbeddedAws) -> None:
    script = aws.state_dir / "aws.sh"
    script.write_text("".join(f"export {n}='{v}'\n" for n, v in aws.environment().items()))
    aws_cli = f"aws --endpoint-url {aws.endpoint}"
    console.print(f"\nIt is still running. In another shell:\n  source {script}", highlight=False)
    for example in (
        ".venv/bin/once status",
        ".venv/bin/once outbox republish --since 1h --dry-run",
        f"{aws_cli} sqs list-queues",
        f"{aws_cli} dynamodb list-tables",
        f"{aws_cli} logs tail /aws/lambda/once-payments",
    ):
        console.print(f"  {example}", highlight=False, soft_wrap=True)
    console.print("Ctrl-C ends it.")
    try:
        aws.wait()
    except KeyboardInterrupt:
        console.print("ended")
