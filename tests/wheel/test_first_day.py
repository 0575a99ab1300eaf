"""The page of the first day, followed in an empty folder with nothing but the wheels."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.quiescence import wait_until
from emulator.installed import CDK
from emulator.local.background import background
from once.ops.aws.clients import depth
from tests.wheel.conftest import NAME, ROOT, Installation, step

PAGE = (ROOT / "docs" / "first-day.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


ENTRY = "lambda_handler = consumer.lambda_handler"
ENTRY_OF_POWERTOOLS = """
from aws_lambda_powertools import Logger

@Logger().inject_lambda_context
def lambda_handler(event, context):
    return consumer.lambda_handler(event, context)
"""


def commands(section: str) -> list[str]:
    [block] = re.findall(r"```sh\n(.*?)```", SECTIONS[section], re.DOTALL)
    return [line.partition("  #")[0].rstrip() for line in block.splitlines()]


class Shell:
    """A shell in the service's folder; after each send, it waits until the message is settled."""

    def __init__(self, service: Installation, cache: Path) -> None:
        self.folder = service.folder
        paths = (service.venv / "bin", ROOT / "node_modules" / ".bin", os.environ["PATH"])
        self._env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._env |= {"PATH": os.pathsep.join(map(str, paths)), "COLUMNS": "200"}
        self._env |= {"XDG_CACHE_HOME": str(cache)}

    def follow(self, section: str) -> dict[str, str]:
        """Run the commands of a section; return what each of them printed."""
        return {command: self.run(command) for command in commands(section)}

    def run(self, command: str) -> str:
        if command.startswith("eval "):
            exported = re.findall(r"export (\w+)=(.*)", self.run("once local env"))
            self._env |= {name: shlex.split(value)[0] for name, value in exported}
            return ""
        with step(command):
            done = subprocess.run(
                command,
                shell=True,
                cwd=self.folder,
                env=self._env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        assert done.returncode == 0, done.stdout
        if command.startswith(("once send", "once dlq redrive")):
            aws = background(self.folder).connection()
            outputs = json.loads((aws.state_dir / "outputs.json").read_text())
            sqs, queue = aws.client("sqs"), outputs[f"{NAME}-service"]["QueueTickets"]
            wait_until("empty queue", lambda: depth(sqs, queue).total == 0, timeout=120)
        return done.stdout


@pytest.fixture
def shell(local_service: Installation, tmp_path: Path) -> Iterator[Shell]:
    made = Shell(local_service, tmp_path)
    # To install MiniStack once more takes a minute: the environment of these tests has it.
    where = "from emulator.installed import server_environment; print(server_environment())"
    server = Path(made.run(f"python -c '{where}'").strip())
    server.parent.mkdir()
    server.symlink_to(ROOT / ".venv-aws")
    yield made
    background(made.folder).end()


def test_the_first_day_goes_as_the_page_says(shell: Shell) -> None:
    assert commands("A service and its tests") == ["once new service tickets", "make install test"]
    handler = shell.folder / "functions" / "tickets" / "handler.py"
    written = handler.read_text()
    mistyped = written.replace('table("tickets")', 'table("tikets")')
    handler.write_text(mistyped.replace(ENTRY, ENTRY_OF_POWERTOOLS))
    shell.run("once local up")
    refused = shell.run("! once local deploy")
    assert f"{NAME}-tickets: RegistrationError: the consumer's registration" in refused
    assert "uses the table 'tikets', which it may not" in refused
    handler.write_text(written)

    sent = shell.follow("Deploy and send")
    ticket = json.loads(sent["once local table tickets"])
    assert (ticket["ticket_id"], ticket["amount"]) == ("t-1", 2)
    assert shell.run("once local table dedup").count('"pk"') == 1

    broken = shell.follow("Break it")
    assert "invalid-data" in broken["once dlq list"]

    handler.write_text(f"import not_there\n{written}")
    error = "Unable to import module 'functions.tickets.handler': No module named 'not_there'"
    assert f"{NAME}-tickets: Runtime.ImportModuleError: {error}" in shell.run("! once local deploy")
    handler.write_text(written)

    repaired = shell.follow("Repair it")
    assert f"code updated: {NAME}-tickets" in repaired["once local deploy"]
    tickets = map(json.loads, repaired["once local table tickets"].splitlines())
    assert {each["ticket_id"]: each["amount"] for each in tickets} == {"t-1": 2, "t-2": "3"}


def test_npx_would_run_the_version_of_the_cdk_that_is_tested() -> None:
    pinned = json.loads((ROOT / "package.json").read_text())["devDependencies"]["aws-cdk"]
    assert f"aws-cdk@{pinned}" == CDK
