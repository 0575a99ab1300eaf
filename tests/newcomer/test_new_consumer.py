"""The commands of docs/new-consumer.md, in their order, in a copy of the project."""

import re
from pathlib import Path

import pytest

from tests.newcomer.workspace import Workspace

SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
FOLLOW = """\
{command} > followed & follower=$!
until grep -q REPORT followed; do kill -0 $follower; sleep 0.2; done
kill $follower; cat followed
"""
"""A reader ends the command with Ctrl-C, when the log has the end of an invocation."""

TESTS = (
    *("tests/functions/test_tickets.py", "tests/golden/test_consumers.py"),
    *("tests/stacks/test_retained.py", "tests/cdk/test_event_routes.py"),
    "tests/docs/test_costs.py",
)
"""Those that a consumer can turn red: found by running all tests beside one."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.copy(tmp_path_factory.mktemp("new") / "once")


def commands(workspace: Workspace, heading: str) -> str:
    """Return the commands below a heading, as a script that stops at the first one that fails."""
    page = (workspace.folder / "docs" / "new-consumer.md").read_text()
    [found] = SHELL.findall(re.split(r"\n##", page.partition(f"{heading}\n")[2])[0])
    lines = [
        FOLLOW.format(command=line.partition("#")[0].rstrip()) if "logs -f" in line else line
        for line in found.splitlines()
        if line != "make test"  # the tests below
    ]
    return "\n".join(["set -euo pipefail", *lines])


def succeeds(workspace: Workspace, *command: str) -> str:
    done = workspace.run(*command)
    assert done.returncode == 0, done.stdout
    return done.stdout


def assemblies(workspace: Workspace) -> list[Path]:
    """Return the folders of the CDK's runs; each run has one of its own."""
    return [*(workspace.folder / ".cache" / "local" / "aws").glob("cdk-deploy-*")]


def test_the_consumer_is_tested_deployed_and_changed_as_the_page_says(workspace: Workspace) -> None:
    written = succeeds(workspace, "bash", "-c", commands(workspace, "## Write it"))
    assert "wrote stacks/consumers.py" in written
    assert "tickets: ticket.requested: added" in written
    try:
        _is_tried(workspace)
    finally:
        workspace.run("once", "local", "down")
    _is_green(workspace)  # at the end: mypy's cache of the project is full by then


def _is_green(workspace: Workspace) -> None:
    new = ("functions/tickets", "tests/functions/test_tickets.py", "stacks")
    succeeds(workspace, "ruff", "check", ".")
    succeeds(workspace, "ruff", "format", "--check", ".")
    succeeds(workspace, "mypy", "--cache-dir", str(workspace.mypy_cache), *new)
    # A folder of its own: runs of pytest that delete old folders side by side warn of each other.
    own = ("-p", "no:cacheprovider", "--basetemp", str(workspace.folder.parent / "tests"))
    succeeds(workspace, "python", "-m", "pytest", "-q", *own, *TESTS)


def _is_tried(workspace: Workspace) -> None:
    script = commands(workspace, "## Try it on the embedded AWS")
    tried = succeeds(workspace, "bash", "-c", script)
    assert "deployed: once-state, once-service" in tried
    sent = tried.partition("sent ticket.requested to tickets; source /once-send, id request-1")[2]
    assert "committed" in sent.partition("once trace request-1")[2]

    handler = workspace.folder / "functions" / "tickets" / "handler.py"
    written = handler.read_text()
    changed = '    print("CHANGED", event.ticket_id)\n    tx.put('
    handler.write_text(written.replace("    tx.put(", changed))
    before = assemblies(workspace)
    follow = FOLLOW.replace("REPORT", "CHANGED").format(command="once local logs -f tickets")
    script = commands(workspace, "### Change it").replace(".venv/bin/once local down", follow, 1)
    environment = 'eval "$(.venv/bin/once local env)"\n'
    changed = succeeds(workspace, "bash", "-c", environment + script)
    assert "code updated: once-tickets" in changed
    assert "CHANGED t-2" in changed
    assert assemblies(workspace) == before

    handler.write_text("import not_there\n" + handler.read_text())
    broken = workspace.run("once", "local", "deploy")
    assert broken.returncode == 1
    error = "Unable to import module 'functions.tickets.handler': No module named 'not_there'"
    assert f"once-tickets: Runtime.ImportModuleError: {error}" in broken.stdout
    assert "ModuleNotFoundError" in succeeds(workspace, "once", "local", "logs", "tickets")
    handler.write_text(written)
