"""`make demo`: deploy, send orders with every kind of fault, wait until at rest, audit."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

from local.audit import Findings, Place, audit
from local.aws import ROOT, EmbeddedAws, embedded_aws
from local.cdk import Outputs, bootstrap, deploy
from local.rest import wait_at_rest
from ops.deployment import Deployment

SERVICE = "once"
REPORTS = ROOT / "reports"
TRAFFIC = ("--count", "500", "--duplicates", "30%", "--conflicts", "5", "--malformed", "5",
           "--refusals", "10")  # fmt: skip
REST_SECONDS = 300.0

console = Console()


def demo(*, keep: bool) -> int:
    """Run the demo; return the exit status, 0 only if the audit is clean.

    Args:
        keep: leave the embedded AWS running afterwards, until Ctrl-C.
    """
    with embedded_aws() as aws:
        try:
            findings = _deploy_send_audit(aws)
        except (subprocess.CalledProcessError, TimeoutError) as error:
            # A function that cannot start says so in the log of the embedded AWS alone.
            console.print(str(error), str(aws.child.failure("is still running")), sep="\n")
            return 1
        if keep:
            _stay(aws)
    return 0 if findings.clean else 1


def _deploy_send_audit(aws: EmbeddedAws) -> Findings:
    with _step("deploying: cdk bootstrap, cdk deploy"):
        started = time.monotonic()
        bootstrap(aws)
        deployment = deployment_of(deploy(aws, outputs=aws.state_dir / "outputs.json"))
        deploy_seconds = time.monotonic() - started
    queues = [consumer.queue_url for consumer in deployment.consumers.values()]
    seconds, manifest = _send(aws, queues)
    with _step("auditing"):
        findings = audit(manifest, place_of(aws, deployment))
    _report(findings, seconds, deploy_seconds)
    return findings


def _send(aws: EmbeddedAws, queues: list[str]) -> tuple[float, Mapping[str, Any]]:
    """Send the orders with the operator's own command, and wait until they are worked off."""
    manifest = aws.state_dir / "manifest.json"
    command = [sys.executable, "-m", "ops", "send", *TRAFFIC, "--manifest", str(manifest)]
    started = time.monotonic()
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **aws.environment()})
    with _step("waiting until everything is at rest"):
        wait_at_rest(aws.client("sqs"), queues, timeout=REST_SECONDS)
    return time.monotonic() - started, json.loads(manifest.read_text())


def deployment_of(outputs: Outputs) -> Deployment:
    """Return the deployment whose stacks have these outputs."""
    return Deployment.of(SERVICE, {k: v for stack in outputs.values() for k, v in stack.items()})


def place_of(aws: EmbeddedAws, deployment: Deployment) -> Place:
    """Return where the audit is to look in a deployment."""
    consumers = deployment.consumers.values()
    return Place(
        dynamodb=aws.client("dynamodb"),
        sqs=aws.client("sqs"),
        logs=aws.client("logs"),
        tables=deployment.tables,
        dead_letters={c.name: c.dead_letter_url for c in consumers},
        log_groups={c.name: f"/aws/lambda/{c.function_name}" for c in consumers},
    )


def _report(findings: Findings, seconds: float, deploy_seconds: float) -> None:
    report = {
        "sent": findings.sent,
        "distinct": findings.distinct,
        "deliveries": findings.deliveries,
        "effects": findings.effects,
        "refused": findings.refused,
        "quarantined": findings.quarantined,
        "lost": findings.lost,
        "doubled": findings.doubled,
        "balance_error": findings.balance_error,
        "unexplained_dead_letters": findings.unexplained_dead_letters,
        "messages_per_second": round(findings.deliveries / seconds, 1),
        "deploy_seconds": round(deploy_seconds, 1),
    }
    REPORTS.mkdir(exist_ok=True)
    (REPORTS / "demo.json").write_text(json.dumps(report, indent=2) + "\n")
    console.print(_table(findings, report))


def _table(findings: Findings, report: Mapping[str, float]) -> Table:
    table = Table(title="Audit, from the tables and queues", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows: dict[str, object] = {
        "messages sent": findings.sent,
        "distinct orders": findings.distinct,
        "deliveries to consumers": findings.deliveries,
        "orders stored": findings.orders_stored,
        "stock moved (pieces)": findings.stock_moved,
        "effects": findings.effects,
        "orders refused": findings.refused,
    }
    for reason, count in sorted(findings.quarantined_by_reason.items()):
        rows[f"quarantined: {reason}"] = count
    rows["unexplained dead letters"] = findings.unexplained_dead_letters
    rows["balance error"] = findings.balance_error
    rows["messages per second"] = report["messages_per_second"]
    for name, value in rows.items():
        table.add_row(name, str(value))
    table.add_section()
    for name in ("lost", "doubled"):
        table.add_row(
            f"[bold]{name}", f"[bold {'green' if not report[name] else 'red'}]{report[name]}"
        )
    return table


def _stay(aws: EmbeddedAws) -> None:
    script = aws.state_dir / "aws.sh"
    script.write_text("".join(f"export {n}='{v}'\n" for n, v in aws.environment().items()))
    aws_cli = f"aws --endpoint-url {aws.endpoint}"
    console.print(f"\nIt is still running. In another shell:\n  source {script}", highlight=False)
    for example in (
        ".venv/bin/python -m ops status",
        f"{aws_cli} sqs list-queues",
        f"{aws_cli} dynamodb list-tables",
        f"{aws_cli} logs tail /aws/lambda/once-inventory",
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
