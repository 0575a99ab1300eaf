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
    found = place_of(service.aws, service.outputs)
    letters = {name: found.dead_letters[name] for name in CONSUMERS}
    groups = {name: f"/aws/lambda/once-{name}" for name in CONSUMERS}
    return Place(found.dynamodb, found.sqs, found.logs, found.tables, letters, groups)


def test_what_the_operator_sends_is_audited_clean(service: Deployment, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    command = [sys.executable, "-m", "ops", "send", *TRAFFIC.split(), "--manifest", str(manifest)]
    environment = {**os.environ, **service.aws.environment()}
    subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    service.wait_at_rest(*CONSUMERS)
    findings = audit(json.loads(manifest.read_text()), place(service))
    assert findings.clean, findings
    assert (findings.sent, findings.distinct, findings.refused) == (65, 40, 2)
    assert findings.quarantined == (2 + 3) * len(CONSUMERS)
    assert findings.deliveries >= 2 * 65
