"""`once new service` of the wheel in an empty folder: tested, extended, deployed, and sent to."""

import json
import os
import re
from pathlib import Path

import pytest

from demo.quiescence import wait_until
from emulator.cdk_cli import Outputs, deploy
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.clients import depth
from tests.wheel.conftest import NAME, ROOT, Installation, step

NPX = """#!/bin/sh
test "$1" = aws-cdk@2 && shift && exec "{cdk}" "$@"
"""
"""In place of the one that downloads the CDK's command line."""


@pytest.fixture(scope="module")
def tested(service: Installation) -> Installation:
    """The service and a second consumer, each with its tests green right after it was written."""
    for command, count in (((), 2), (("once", "new", "consumer", "refunds"), 4)):
        with step(f"{' '.join(command)}, make test"):
            done = service.run(*command) if command else None
            assert done is None or done.returncode == 0, done.stderr
            shown = service.make("test")
            assert f"{count} passed" in shown.stdout, shown.stdout + shown.stderr
    return service


@pytest.fixture(scope="module")
def outputs(tested: Installation, account: EmbeddedAws) -> Outputs:
    with step("new service deployed"):
        return deploy(
            account,
            app=f"{tested.venv / 'bin' / 'python'} app.py",
            cwd=tested.folder,
            outputs=tested.folder / "outputs.json",
        )


@pytest.mark.parametrize("consumer", ["ticket", "refund"])
def test_an_event_that_is_sent_twice_changes_a_table_of_the_new_service_once(
    tested: Installation,
    account: EmbeddedAws,
    outputs: Outputs,
    monkeypatch: pytest.MonkeyPatch,
    consumer: str,
) -> None:
    for name, value in account.environment().items():
        monkeypatch.setenv(name, value)
    event = json.loads((tested.folder / "events" / f"{consumer}-requested.json").read_text())
    options = ("--type", event["type"], "--id", "one", "--data", json.dumps(event["data"]))
    for _ in range(2):
        sent = tested.run("once", "send", "--service", NAME, *options)
        assert sent.returncode == 0, sent.stderr
    state, service = outputs[f"{NAME}-state"], outputs[f"{NAME}-service"]
    queue, sqs = service[f"Queue{consumer.title()}s"], account.client("sqs")
    wait_until("empty queue", lambda: depth(sqs, queue).total == 0, timeout=300)
    dynamodb = account.client("dynamodb")
    [item] = dynamodb.scan(TableName=state[f"Table{consumer.title()}s"])["Items"]
    assert item[f"{consumer}_id"] == {"S": f"sample-{consumer}"}
    assert "repetitions" not in item
    records = dynamodb.scan(TableName=state["DedupTable"])["Items"]
    keys = [each["pk"]["S"].partition("#")[0] for each in records]
    assert keys.count(f"{consumer}s") == 1


def test_the_steps_of_its_continuous_integration_pass(tested: Installation, tmp_path: Path) -> None:
    workflow = (tested.folder / ".github" / "workflows" / "ci.yml").read_text()
    [steps] = re.findall(r"- run: make (.*)", workflow)
    assert steps.split() == ["install", "test", "synth"]  # the first two were run before
    npx = tmp_path / "npx"
    npx.write_text(NPX.format(cdk=ROOT / "node_modules" / ".bin" / "cdk"))
    npx.chmod(0o755)
    paths = (tested.venv / "bin", tmp_path, os.environ["PATH"])
    with step("make synth"):
        path = os.pathsep.join(map(str, paths))
        done = tested.make("synth", PATH=path, CDK_VALIDATION="true")
    assert done.returncode == 0, done.stdout + done.stderr
    names = {path.name for path in (tested.folder / "cdk.out").glob("*.template.json")}
    assert names == {f"{NAME}-{part}.template.json" for part in ("state", "service")}


def test_the_service_holds_no_place_of_the_machine_that_wrote_it(written: Installation) -> None:
    names = ("Makefile", "README.md", "pyproject.toml", "cdk.json", ".github/workflows/ci.yml")
    texts = [(written.folder / name).read_text() for name in names]
    assert not [text for text in texts if "://" in text or str(written.folder.parent) in text]
