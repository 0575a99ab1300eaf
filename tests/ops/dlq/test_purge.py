"""`dlq purge`: dead letters are deleted after a file holds everything to send them again."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from once.ops.dead_letters.queue_walk import QueueWalk
from once.schema import RELAY, Limits
from tests.ops.letters import Shop, note
from tests.ops.output import stderr_of, stdout_of, words
from tests.ops.support import REFUSED_ENTRY, answer_with, fail_entries, run


@pytest.fixture
def shop(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop with one dead letter; files go into a temporary folder."""
    monkeypatch.chdir(tmp_path)
    shop.give_up("{")
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


def test_purged_letters_can_be_sent_again_from_the_file(empty: Shop) -> None:
    empty.give_up(note("a"), note("b"), error=ValueError(), tenant="t-1")
    before = {letter.message_id: letter for letter in empty.letters()}
    assert purge("--yes", "--export", "out").exit_code == 0
    assert empty.letters() == []
    for line in lines("out"):
        assert line["reason"] == "retries-exhausted"
        assert line["error"] == before[line["message_id"]].error
        assert empty.sqs.send_message(**line["send"])["MessageId"]
    empty.outside.faults["b"] = ValueError()
    empty.work_off(receive_count=5)
    assert empty.counted() == {"a": 1}
    again = empty.letter()
    assert again.original.attributes["tenant"]["stringValue"] == "t-1"
    assert len(again.lineage) == 2


def test_compressed_message_is_exported_uncompressed(empty: Shop) -> None:
    body = "x" * Limits.MESSAGE_BYTES
    empty.give_up(body)
    purge("--yes", "--export", "out")
    [line] = lines("out")
    assert line["send"]["MessageBody"] == body
    empty.sqs.send_message(**line["send"])
    empty.work_off()
    assert empty.letter().original.body == body


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
    shop.give_up("[")
    purge("--yes", "--export", "out")
    assert steps == ["fsync", "fsync", "delete"]
    assert len(lines("out")) == 2
    assert Path("out").stat().st_mode & 0o777 == 0o600


def test_each_consumer_has_a_file_of_its_own_without_a_file_name(shop: Shop) -> None:
    shop.cloud.bury(RELAY, "event")
    output = stdout_of("dlq", "purge", "--yes")
    files = sorted(path.name for path in Path().glob("*.jsonl"))
    assert [name.split("-")[1] for name in files] == ["orders", RELAY]
    assert all(f"1 written to {name}" in output for name in files)
    [line] = lines(files[1])
    assert (line["send"]["QueueUrl"], line["send"]["MessageBody"]) == (None, "event")


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
    assert "delete 1 dead letters?" in result.stdout
    assert result.exit_code == left
    assert shop.hidden() == 0
    assert len(shop.letters()) == left
    assert Path("out").exists() is not bool(left)


def test_letter_whose_hold_lapsed_is_not_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QueueWalk, "lapsed", 1)
    result = purge("--export", "out", answer="y\n")
    assert result.exit_code == 1
    assert "could not be held while this command waited" in words(result.stderr)
    assert len(shop.letters()) == 1
    assert not Path("out").exists()


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
    assert not list(Path().glob("*.jsonl"))


def test_letter_that_was_not_deleted_is_reported(shop: Shop) -> None:
    shop.give_up("[")
    fail_entries("sqs.DeleteMessageBatch", REFUSED_ENTRY, 0)
    kept = shop.letters()[0].message_id
    said = stderr_of("dlq", "purge", "--yes", "--export", "out")
    assert f"{kept}: InvalidParameter too odd" in said
    assert len(lines("out")) == 2


def test_ids_and_filters_exclude_one_another(shop: Shop) -> None:
    stderr_of("dlq", "purge", "abc", "--reason", "died", code=2)
