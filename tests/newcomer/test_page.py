"""The commands of docs/new-consumer.md, run literally in a copy that has the consumer."""

import re

import pytest

from tests.newcomer.workspace import Workspace

SECTION = "## Try it on the embedded AWS\n"
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
FOLLOW = """\
{command} > followed & follower=$!
until grep -q REPORT followed; do kill -0 $follower; sleep 0.2; done
kill $follower; cat followed
"""
"""A reader ends the command with Ctrl-C, when the log has the end of an invocation."""


@pytest.fixture
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    copy = Workspace.copy(tmp_path_factory.mktemp("page") / "once")
    copy.add_consumer()
    return copy


def script(page: str) -> str:
    """Return the commands as a script that stops at the first one that fails."""
    [commands] = SHELL.findall(page.partition(SECTION)[2].partition("\n## ")[0])
    lines = [
        FOLLOW.format(command=line.partition("#")[0].rstrip()) if "logs -f" in line else line
        for line in commands.splitlines()
    ]
    return "\n".join(["set -euo pipefail", *lines])


def test_the_commands_of_the_page_lead_to_a_commit(workspace: Workspace) -> None:
    page = (workspace.folder / "docs" / "new-consumer.md").read_text()
    done = workspace.run("bash", "-c", f"trap '.venv/bin/once local down' EXIT\n{script(page)}")
    assert done.returncode == 0, done.stdout
    assert "deployed: once-state, once-service" in done.stdout
    sent = done.stdout.partition("sent seat.booked to tickets; source /once-send, id booking-1")[2]
    assert "once-tickets" in sent
    assert "refused" in sent.partition("once trace booking-1")[2]  # no seats are left
    assert sent.rstrip().endswith("ended\nnone was running")
