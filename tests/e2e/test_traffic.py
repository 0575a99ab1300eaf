"""The demo at small scale: sample traffic on the deployed service, and its audit."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from demo.audit import Evidence, Manifest, audit
from emulator.embedded_aws import ROOT
from once.ops.errors import ExitCode
from stacks.consumers import CONSUMERS
from tests.e2e.deployment import SAGA, Deployment

TRAFFIC = "--count 40 --duplicates 50% --conflicts 2 --malformed 3 --refusals 2 --declines 3"


def evidence(service: Deployment, manifest: Manifest) -> Evidence:
    """Return the audit's evidence without the traces of other tests."""
    found = service.evidence()
    orders = {order["order_id"] for order in manifest["orders"]}
    return replace(
        found,
        dead_letters={name: found.dead_letters[name] for name in (*SAGA, "outbox_relay")},
        log_groups={name: found.log_groups[name] for name in SAGA},
        charges=[c for c in found.charges if c["metadata"]["order_id"] in orders],
    )


def ops(service: Deployment, *arguments: str, code: int = 0) -> str:
    """Run the operator's command line, and return its output."""
    return run_module(service, "once.ops", *arguments, code=code)


def run_module(service: Deployment, *arguments: str, code: int = 0) -> str:
    """Run a module with `python -m` that ends with an exit code, and return its output."""
    command = [sys.executable, "-m", *arguments]
    environment = {**os.environ, **service.aws.environment()}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    assert ended.returncode == code
    return ended.stdout


def test_status_shows_every_consumers_queue_and_dead_letters(service: Deployment) -> None:
    service.send("probe", "{")
    service.wait_until_empty("probe")
    found = json.loads(ops(service, "status", "--json", code=ExitCode.STUCK))
    rows = {row["consumer"]: row for row in found["queues"]}
    assert set(rows) == {*service.parts.consumers, "outbox_relay", "unrouted"}
    assert {*(c.name for c in CONSUMERS), "probe", "rogue"} <= set(rows)
    assert (rows["probe"]["visible"], rows["probe"]["dead_letters"]) == (0, 1)
    service.dead_letters("probe", 1)


def test_sample_traffic_passes_the_audit(service: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "manifest.json"
    run_module(service, "demo", "send", *TRAFFIC.split(), "--manifest", str(file))
    service.wait_at_rest()
    manifest = json.loads(file.read_text())
    findings = audit(manifest, evidence(service, manifest))
    assert findings.clean, findings
    assert (findings.sent, findings.distinct) == (65, 40)
    assert (findings.refused, findings.charges) == (2, 35)
    assert findings.quarantined == (2 + 3) * 2  # orders and inventory get all that is sent
    assert findings.deliveries >= 2 * 65
