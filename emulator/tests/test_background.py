"""An embedded AWS in the background: found by later commands, and gone after the last one."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from emulator.local.background import Background
from emulator.local.background import background as background_of
from emulator.local.endpoint import environment_here
from emulator.tests.processes import still_running, wait_until_gone
from once.ops.errors import OpsError


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Background]:
    found = background_of(tmp_path)
    found.home.parent.mkdir()
    yield found
    found.end()


def processes(background: Background) -> list[int]:
    """Return the process in the background and its descendants."""
    home = str(background.home)
    every = [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"]]
    [server] = [p for p in every if p.info["cmdline"][-1] == home]
    return [process.pid for process in (server, *server.children(recursive=True))]


def test_it_is_started_once_and_its_end_leaves_nothing(
    tmp_path: Path, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert background.start()
    connection = background.connection()
    assert connection.client("sqs").list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert not background.start()
    assert background.connection() == connection
    monkeypatch.chdir(tmp_path)
    assert environment_here() == connection.environment()
    running = processes(background)
    assert len(running) >= 3
    assert background.end()
    assert still_running(running) == []
    assert [path.name for path in background.home.iterdir()] == ["lock"]
    assert not background.end()
    assert environment_here() is None
    with pytest.raises(OpsError, match="no embedded AWS runs for this folder"):
        background.connection()


def test_after_a_crash_commands_say_so_and_a_new_one_starts(background: Background) -> None:
    background.start()
    first = background.connection()
    running = processes(background)
    os.kill(running[0], signal.SIGKILL)
    wait_until_gone(running[1:])
    with pytest.raises(OpsError, match=r"has ended by itself; its log is .*process\.log"):
        background.connection()
    assert background.start()
    assert background.connection() != first


def test_another_process_under_its_number_is_not_taken_for_it(background: Background) -> None:
    background.home.mkdir()
    state = {"pid": str(psutil.Process().pid), "created": "1"}
    (background.home / "state.json").write_text(json.dumps(state))
    with pytest.raises(OpsError, match="has ended by itself"):
        background.connection()
    assert not background.end()


def test_a_failed_start_shows_the_reason(
    background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.local.background.ROOT", background.home.parent)
    background.home.mkdir()
    (background.home / "aws").write_text("a file in place of the folder")
    with pytest.raises(OpsError, match=r"(?s)did not start:.*"):
        background.start()
