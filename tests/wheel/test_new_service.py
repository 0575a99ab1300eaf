"""`once new service` of the wheel in an empty folder: tested, extended, synthesized, deployed."""

import os
import re
from pathlib import Path

import pytest

from demo.quiescence import wait_until
from emulator.embedded_aws import EmbeddedAws
from tests.wheel.conftest import NAME, ROOT, Installation, step

NPX = """#!/bin/sh
test "$1" = aws-cdk@2 && shift && exec "{cdk}" "$@"
"""
"""In place of the one that downloads the CDK's command line."""


@pytest.fixture(scope="module")
def tested(service: Installation) -> Installation:
    """The service with a second consumer and a command; all tests are green as written."""
    with step("once new consumer refunds, once new command, once lock, make install, make test"):
        (service.venv / "bin" / "uv").symlink_to(ROOT / ".venv" / "bin" / "uv")
        for command in (
            ("new", "consumer", "refunds", "--model", "pydantic"),
            ("new", "command", "bookings"),
            ("lock",),
        ):
            done = service.run("once", *command)
            assert done.returncode == 0, done.stderr
        lock = (service.folder / "functions" / "refunds" / "requirements.txt").read_text()
        assert re.search(r"^pydantic==\S+ \\\n +--hash=sha256:", lock, re.MULTILINE), lock
        assert str(service.folder) not in lock
        assert "://" not in lock
        done = service.make("install")
        assert done.returncode == 0, done.stdout + done.stderr
        shown = service.make("test")
        assert "7 passed" in shown.stdout, shown.stdout + shown.stderr
    return service


def test_the_steps_of_its_continuous_integration_pass(tested: Installation, tmp_path: Path) -> None:
    workflow = (tested.folder / ".github" / "workflows" / "ci.yml").read_text()
    [steps] = re.findall(r"- run: make (.*)", workflow)
    assert steps.split() == ["install", "test", "synth"]  # the first two were run before
    # A value for each deployment is in the file that every step reads.
    registry, cdk = tested.folder / "registry.py", tested.folder / "cdk.json"
    line = '        "refunds",\n'
    assert line in registry.read_text()
    asked = registry.read_text().replace(line, f'{line}        parameters=("bank_api",),\n')
    registry.write_text(asked)
    cdk.write_text(cdk.read_text().replace('"context": {', '"context": {"bank_api": "https:",'))
    npx = tmp_path / "npx"
    npx.write_text(NPX.format(cdk=ROOT / "node_modules" / ".bin" / "cdk"))
    npx.chmod(0o755)
    paths = (tested.venv / "bin", tmp_path, os.environ["PATH"])
    with step("make synth"):
        path = os.pathsep.join(map(str, paths))
        done = tested.make("synth", PATH=path, CDK_VALIDATION="true")
    assert done.returncode == 0, done.stdout + done.stderr
    template = (tested.folder / "cdk.out" / f"{NAME}-service.template.json").read_text()
    assert '"BANK_API": "https:"' in template
    names = {path.name for path in (tested.folder / "cdk.out").glob("*.template.json")}
    assert names == {f"{NAME}-{part}.template.json" for part in ("state", "service")}


def test_the_service_holds_no_place_of_the_machine_that_wrote_it(written: Installation) -> None:
    names = ("Makefile", "README.md", "pyproject.toml", "cdk.json", ".github/workflows/ci.yml")
    texts = [(written.folder / name).read_text() for name in names]
    assert not [text for text in texts if "://" in text or str(written.folder.parent) in text]


def test_a_service_for_sam_is_deployed_by_the_steps_of_the_page(
    service: Installation, account: EmbeddedAws, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "without-the-cdk.md").read_text()
    section = page.partition("## Try it locally")[2].partition("## ")[0]
    steps = re.findall(r"^(?:once template|once package|aws|sam) [^#\n]+", section, re.MULTILINE)
    assert len(steps) == 6
    desk = Installation(service.venv, tmp_path)
    env = {**account.environment(), "SAM_CLI_TELEMETRY": "0", "ONCE_SERVICE": "desk"}
    paths = (service.venv / "bin", ROOT / ".venv-cli" / "bin", os.environ["PATH"])
    env["PATH"] = os.pathsep.join(map(str, paths))
    data = """'{"ticket_id": "t-1", "amount": 2}'"""
    for command in (
        "once new service desk --tool sam",
        *(each.replace("tickets", "desk") for each in steps),
        f"once send --type ticket.requested --id e-1 --data {data}",
    ):
        with step(command):
            done = desk.shell(command, **env)
        assert done.returncode == 0, done.stdout + done.stderr
    [stack] = account.client("cloudformation").describe_stacks(StackName="desk-state")["Stacks"]
    [table] = [
        each["OutputValue"] for each in stack["Outputs"] if each["OutputKey"] == "TableTickets"
    ]
    dynamodb = account.client("dynamodb")
    wait_until("a ticket", lambda: dynamodb.scan(TableName=table)["Count"] == 1, timeout=120)
