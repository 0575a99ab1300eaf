"""`make demo`: deploy, send orders with every kind of fault, wait until at rest, audit."""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

from local.audit import Manifest, audit
from local.aws import ROOT, EmbeddedAws, embedded_aws
from local.kills import killing
from local.payments import Fault, Faults, PaymentSandbox, payment_sandbox
from local.processes import ProcessFailed
from local.report import report
from local.rest import wait_at_rest
from local.service import deploy_service, place_of
from ops.deployment import Deployment

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
REST_SECONDS = 300.0

console = Console()


@dataclass(frozen=True)
class Run:
    """What was sent, and what the run did to it."""

    manifest: Manifest
    seconds: float
    killed: int


def demo(*, keep: bool) -> int:
    """Run the demo; return the exit status, 0 only if the audit is clean after enough faults.

    Args:
        keep: leave the embedded AWS running afterwards, until Ctrl-C.
    """
    faults = Faults(seed=secrets.randbits(32), shares=SHARES, most=KILLS)
    with payment_sandbox(faults) as sandbox, embedded_aws() as aws:
        try:
            good = _deploy_send_audit(aws, sandbox)
        except (subprocess.CalledProcessError, ProcessFailed) as error:
            _explain(aws, error)
            return 1
        if keep:
            _stay(aws)
    return 0 if good else 1


def _explain(aws: EmbeddedAws, error: Exception) -> None:
    """A function that cannot start says so in the log of the embedded AWS alone."""
    console.print(str(error), str(aws.child.failure("is still running")), sep="\n", markup=False)


def _deploy_send_audit(aws: EmbeddedAws, sandbox: PaymentSandbox) -> bool:
    with _step("deploying: cdk bootstrap, cdk deploy"):
        started = time.monotonic()
        deployment = deploy_service(aws, sandbox.url)
        deploy_seconds = time.monotonic() - started
    run = _send(aws, sandbox, deployment)
    with _step("auditing"):
        findings = audit(run.manifest, place_of(aws, deployment, sandbox.url))
    more = {
        "charge_answers_dropped": sandbox.fired[Fault.DROP],
        "functions_killed": run.killed,
        "messages_per_second": round(findings.deliveries / run.seconds, 1),
        "deploy_seconds": round(deploy_seconds, 1),
    }
    report(findings, more, console)
    return findings.clean and _enough_faults(more)


def _enough_faults(figures: Mapping[str, float]) -> bool:
    """A run in which nothing went wrong shows nothing."""
    missing = {name: least for name, least in LEAST.items() if figures[name] < least}
    for name, least in missing.items():
        console.print(f"[red]{name} is {figures[name]}, and less than {least} shows nothing")
    return not missing


def _send(aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment) -> Run:
    """Send the orders with the operator's own command, and wait until they are worked off."""
    manifest = aws.state_dir / "manifest.json"
    command = [sys.executable, "-m", "ops", "send", *TRAFFIC, "--manifest", str(manifest)]
    names = {name: consumer.function_name for name, consumer in deployment.consumers.items()}
    charging = names.pop("payments")
    relay = f"{deployment.service}-outbox_relay"
    started = time.monotonic()
    with killing(aws, sandbox, charging, [relay, *names.values()]) as killer:
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **aws.environment()})
        with _step("waiting until everything is at rest"):
            queues = [consumer.queue_url for consumer in deployment.consumers.values()]
            place = place_of(aws, deployment, sandbox.url)
            try:
                wait_at_rest(place, queues, timeout=REST_SECONDS)
            except TimeoutError as error:
                _explain(aws, error)  # what is still on its way shows in the audit
    seconds = time.monotonic() - started
    return Run(json.loads(manifest.read_text()), seconds, killer.killed.total())


def _stay(aws: EmbeddedAws) -> None:
    script = aws.state_dir / "aws.sh"
    script.write_text("".join(f"export {n}='{v}'\n" for n, v in aws.environment().items()))
    aws_cli = f"aws --endpoint-url {aws.endpoint}"
    console.print(f"\nIt is still running. In another shell:\n  source {script}", highlight=False)
    for example in (
        ".venv/bin/python -m ops status",
        ".venv/bin/python -m ops outbox republish --since 1h --dry-run",
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


@contextmanager
def _step(what: str) -> Iterator[None]:
    started = time.monotonic()
    console.print(f"[dim]{what} …", highlight=False)
    yield
    console.print(f"[dim]{what}: {time.monotonic() - started:.1f} s", highlight=False)
