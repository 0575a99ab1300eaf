"""`dlq purge`: dead letters are deleted after a file holds everything to restore them."""

import json
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

from once.names import RELAY
from once.ops.dead_letters import search
from once.ops.dead_letters.export import export
from once.ops.dead_letters.search import HOLD_SECONDS, RENEW_EVERY_SECONDS, QueueWalk
from tests.ops.letters import Shop
from tests.ops.output import stderr_of, stdout_of, words
from tests.ops.support import REFUSED_ENTRY, answer_with, fail_entries, run


@pytest.fixture
def shop(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop with one dead letter; files go into a temporary folder."""
    monkeypatch.chdir(tmp_path)
    shop.dead_letter("{")
    return shop


@pytest.fixture
def empty(shop: Shop) -> Shop:
    """The same without a dead letter."""
    assert purge("--yes", "--export", "first").exit_code == 0
    return shop


def purge(*options: object, answer: str = "") -> Result:
    return run("dlq", "purge", *options, answer=answer)


def lines(file: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def test_file_of_its_owner_is_on_the_disk_before_letters_are_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        steps.append("fsync")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    answer_with("sqs.DeleteMessageBatch", lambda params: steps.append("delete"))
    shop.dead_letter("[")
    purge("--yes", "--export", "out")
    assert steps == ["fsync", "fsync", "delete"]
    assert len(lines("out")) == 2
    assert Path("out").stat().st_mode & 0o777 == 0o600


def test_each_consumer_has_a_file_of_its_own_without_a_file_name(shop: Shop) -> None:
    shop.cloud.bury(RELAY, "event")
    output = stdout_of("dlq", "purge", "--yes")
    files = sorted(Path("once-exports").glob("*.jsonl"))
    assert [file.name.split("-")[1] for file in files] == ["orders", RELAY]
    assert all(
        f"1 written to {file}; `once dlq import` is safe until 20" in output for file in files
    )
    [line] = lines(files[1])
    assert line["send"]["QueueUrl"] == shop.cloud.box(RELAY)
    assert line["send"]["MessageBody"] == "event"


def test_git_ignores_the_folder_of_exports(shop: Shop) -> None:
    subprocess.run(["git", "init", "--quiet"], check=True)
    stdout_of("dlq", "purge", "--yes")
    assert list(Path("once-exports").glob("*.jsonl"))
    listed = subprocess.check_output(["git", "status", "--porcelain"], text=True)
    assert listed == ""
    assert Path("once-exports").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("file", ["exists", "no/such/folder/out"])
def test_no_letter_is_deleted_if_the_file_cannot_be_written(shop: Shop, file: str) -> None:
    Path("exists").write_text("precious")
    said = stderr_of("dlq", "purge", "--yes", "--export", file)
    assert "nothing was deleted; name another file" in said
    assert Path("exists").read_text() == "precious"
    assert shop.hidden() == 0
    assert len(shop.letters()) == 1


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_purge_asks_for_confirmation(shop: Shop, answer: str, left: int) -> None:
    result = purge("--export", "out", answer=answer)
    assert "delete 1 dead letters?" in result.stderr
    assert result.exit_code == left
    assert shop.hidden() == 0
    assert len(shop.letters()) == left
    assert Path("out").exists() is not bool(left)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds by which the clock of the walk is ahead."""
    ahead = [0.0]
    monkeypatch.setattr(search, "time", SimpleNamespace(time=lambda: time.time() + ahead[0]))
    return ahead


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[QueueWalk]:
    """The walks that were begun."""
    found: list[QueueWalk] = []

    def enter(walk: QueueWalk) -> QueueWalk:
        found.append(walk)
        return walk

    monkeypatch.setattr(QueueWalk, "__enter__", enter)
    return found


def test_prompt_may_stay_open_for_longer_than_a_hold(
    shop: Shop, clock: list[float], walks: list[QueueWalk], monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide(*_: object, **__: object) -> bool:
        for _step in range(10):
            clock[0] += RENEW_EVERY_SECONDS
            list(walks[0].renewals())
        assert clock[0] > HOLD_SECONDS
        return True

    monkeypatch.setattr("typer.confirm", decide)
    assert purge("--export", "out").exit_code == 0
    assert shop.letters() == []


def test_letter_that_another_command_took_while_the_prompt_was_open_is_not_deleted(
    shop: Shop, clock: list[float], walks: list[QueueWalk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine slept. SQS accepts a renewal by the old receive, so that nothing else tells."""

    def decide(*_: object, **__: object) -> bool:
        clock[0] += HOLD_SECONDS
        shop.show_hidden()
        assert len(shop.letters()) == 1
        list(walks[0].renewals())
        return True

    monkeypatch.setattr("typer.confirm", decide)
    result = purge("--export", "out")
    assert result.exit_code == 1
    assert "1 dead letters could not be held while this command waited" in words(result.stderr)
    assert len(shop.letters()) == 1
    assert not Path("out").exists()


@pytest.mark.parametrize("stolen_by", ["the clock", "SQS"])
def test_letter_whose_hold_ends_after_the_export_is_not_deleted(
    shop: Shop, clock: list[float], monkeypatch: pytest.MonkeyPatch, stolen_by: str
) -> None:
    if stolen_by == "SQS":
        fail_entries("sqs.ChangeMessageVisibilityBatch", REFUSED_ENTRY, times=9)

    def slowly(*arguments: Any) -> dict[str, str]:
        clock[0] += HOLD_SECONDS if stolen_by == "the clock" else 0
        return export(*arguments)

    monkeypatch.setattr("once.ops.dead_letters.export.export", slowly)
    said = stderr_of("dlq", "purge", "--yes", "--export", "out")
    assert "its hold ended before it was deleted" in said
    assert len(lines("out")) == 1
    assert len(shop.letters()) == 1


def test_dry_run_shows_the_letters_and_deletes_none(shop: Shop) -> None:
    assert "unparseable" in stdout_of("dlq", "purge", "--dry-run", "--export", "out")
    assert not Path("out").exists()
    assert len(shop.letters()) == 1


def test_filters_and_ids_select_letters(shop: Shop) -> None:
    shop.fail("a", "b")
    assert purge("--yes", "--reason", "unparseable", "--export", "1").exit_code == 0
    first, second = shop.letters()
    assert purge(first.message_id[:9], "--yes", "--export", "2").exit_code == 0
    assert [letter.message_id for letter in shop.letters()] == [second.message_id]


def test_nothing_is_asked_or_written_without_letters(empty: Shop) -> None:
    assert "looked at 0 of about 0" in stdout_of("dlq", "purge")
    assert not Path("once-exports").exists()


def test_letter_that_was_not_deleted_is_reported(shop: Shop) -> None:
    shop.dead_letter("[")
    fail_entries("sqs.DeleteMessageBatch", REFUSED_ENTRY, 0)
    kept = shop.letters()[0].message_id
    said = stderr_of("dlq", "purge", "--yes", "--export", "out")
    assert f"{kept}: InvalidParameter too odd" in said
    assert len(lines("out")) == 2


def test_ids_and_filters_exclude_one_another(shop: Shop) -> None:
    stderr_of("dlq", "purge", "abc", "--reason", "died", code=2)
