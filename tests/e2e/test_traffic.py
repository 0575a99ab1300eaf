"""The operator's `send`, and the audit of what it did: the demo in small."""

import json
import os
import subprocess
import sys
from pathlib import Path

from local.audit import Place, audit
from local.aws import ROOT
from local.demo import place_of
from tests.e2e.deployment import Deployment

TRAFFIC = "--count 40 --duplicates 50% --conflicts 2 --malformed 3 --refusals 2"
CONSUMERS = ("orders", "inventory")


def place(service: Deployment) -> Place:
    """Where the audit looks, without the consumers that this traffic does not reach."""
    found = place_of(service.aws, service.parts)
    letters = {name: found.dead_letters[name] for name in CONSUMERS}
    groups = {name: found.log_groups[name] for name in CONSUMERS}
    return Place(found.dynamodb, found.sqs, found.logs, found.tables, letters, groups)


def ops(service: Deployment, *arguments: str) -> str:
    """Run the operator's command line, and return what it prints."""
    command = [sys.executable, "-m", "ops", *arguments]
    environment = {**os.environ, **service.aws.environment()}
    done = subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE)
    return done.stdout.decode()


def test_status_shows_every_consumers_queue_and_dead_letters(service: Deployment) -> None:
    service.send("probe", "{")
    service.wait_at_rest("probe")
    rows = {row["consumer"]: row for row in json.loads(ops(service, "status", "--json"))}
    assert set(rows) == {"orders", "inventory", "probe", "rogue"}
    assert (rows["probe"]["visible"], rows["probe"]["dead_letters"]) == (0, 1)
    service.dead_letters("probe", 1)


def test_what_the_operator_sends_is_audited_clean(service: Deployment, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    ops(service, "send", *TRAFFIC.split(), "--manifest", str(manifest))
    service.wait_at_rest(*CONSUMERS)
    findings = audit(json.loads(manifest.read_text()), place(service))
    assert findings.clean, findings
    assert (findings.sent, findings.distinct, findings.refused) == (65, 40, 2)
    assert findings.quarantined == (2 + 3) * len(CONSUMERS)
    assert findings.deliveries >= 2 * 65
