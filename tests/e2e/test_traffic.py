"""The operator's `send`, and the audit of what it did: the demo in small."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from demo.audit import Evidence, Manifest, audit
from emulator.embedded_aws import ROOT
from stacks.consumers import CONSUMERS
from tests.e2e.deployment import SAGA, Deployment

TRAFFIC = "--count 40 --duplicates 50% --conflicts 2 --malformed 3 --refusals 2 --declines 3"


def place(service: Deployment, manifest: Manifest) -> Evidence:
    """Where the audit looks, without what other tests have left there."""
    found = service.place()
    orders = {order["order_id"] for order in manifest["orders"]}
    return replace(
        found,
        dead_letters={name: found.dead_letters[name] for name in (*SAGA, "outbox_relay")},
        log_groups={name: found.log_groups[name] for name in SAGA},
        charges=[c for c in found.charges if c["metadata"]["order_id"] in orders],
    )


def ops(service: Deployment, *arguments: str) -> str:
    """Run the operator's command line, and return what it prints."""
    return run_module(service, "once.ops", *arguments)


def run_module(service: Deployment, *arguments: str) -> str:
    """Run `python -m` with a module and its arguments, and return what it prints."""
    command = [sys.executable, "-m", *arguments]
    environment = {**os.environ, **service.aws.environment()}
    done = subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE)
    return done.stdout.decode()


def test_status_shows_every_consumers_queue_and_dead_letters(service: Deployment) -> None:
    service.send("probe", "{")
    service.wait_until_empty("probe")
    rows = {row["consumer"]: row for row in json.loads(ops(service, "status", "--json"))}
    others = {"outbox_relay", "probe", "rogue", "unrouted"}
    assert set(rows) == {*(c.name for c in CONSUMERS), *others}
    assert (rows["probe"]["visible"], rows["probe"]["dead_letters"]) == (0, 1)
    service.dead_letters("probe", 1)


def test_what_the_operator_sends_is_audited_clean(service: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "manifest.json"
    run_module(service, "demo", "send", *TRAFFIC.split(), "--manifest", str(file))
    service.wait_at_rest()
    manifest = json.loads(file.read_text())
    findings = audit(manifest, place(service, manifest))
    assert findings.clean, findings
    assert (findings.sent, findings.distinct) == (65, 40)
    assert (findings.refused, findings.charges) == (2, 35)
    assert findings.quarantined == (2 + 3) * 2  # orders and inventory get all that is sent
    assert findings.deliveries >= 2 * 65
