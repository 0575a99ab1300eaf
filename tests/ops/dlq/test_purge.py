"""`dlq purge`: dead letters are deleted once they stand in a file that can bring them back."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from once.ops.__main__ import app
from once.schema import RELAY, Limits
from tests.ops.letters import Shop, note
from tests.ops.support import OK, Cloud, answer_with, run

REFUSED = {"Code": "Odd", "Message": "no", "SenderFault": True}


@pytest.fixture
def shop(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.chdir(tmp_path)
    with Shop(cloud) as shop:
        yield shop


def purge(*options: object, answer: str = "") -> Result:
    arguments = ["dlq", "purge", *map(str, options)]
    return CliRunner().invoke(app, arguments, input=answer)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_what_was_purged_can_be_sent_again_from_the_file(shop: Shop) -> None:
    for name in ("a", "b"):
        shop.outside.faults[name] = ValueError()
        shop.send(note(name), tenant="t-1")
    shop.work_off(receive_count=5)
    shop.outside.faults.clear()
    before = {letter.message_id: letter for letter in shop.letters()}
    assert purge("--yes", "--export", "out").exit_code == 0
    assert shop.letters() == []
    for line in lines(Path("out")):
        letter = before[line["message_id"]]
        assert line["reason"] == "retries-exhausted"
        assert line["error"] == letter.error
        sent = shop.sqs.send_message(**line["send"])
        assert sent["MessageId"]
    shop.outside.faults["b"] = ValueError()
    shop.work_off(receive_count=5)
    assert shop.counted() == {"a": 1}
    again = shop.letter()
    assert again.original.attributes["tenant"]["stringValue"] == "t-1"
    assert len(again.lineage) == 2


def test_a_message_that_was_compressed_stands_in_the_file_as_it_was_sent(shop: Shop) -> None:
    shop.give_up("x" * Limits.MESSAGE_BYTES)
    purge("--yes", "--export", "out")
    [line] = lines(Path("out"))
    assert line["send"]["MessageBody"] == "x" * Limits.MESSAGE_BYTES
    shop.sqs.send_message(**line["send"])
    shop.work_off()
    assert shop.letter().original.body == "x" * Limits.MESSAGE_BYTES


def test_nothing_is_deleted_before_the_file_is_on_the_disk(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        steps.append("fsync")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    answer_with("sqs.DeleteMessageBatch", lambda params: steps.append("delete"))
    shop.give_up("{", "[")
    purge("--yes", "--export", "out")
    assert steps == ["fsync", "fsync", "delete"]
    assert len(lines(Path("out"))) == 2


def test_each_consumer_has_a_file_of_its_own_unless_one_is_named(shop: Shop) -> None:
    shop.give_up("{")
    relay = shop.cloud.outputs["once-service"]["RelayDeadLetters"]
    shop.sqs.send_message(QueueUrl=relay, MessageBody="event")
    result = purge("--yes")
    assert result.exit_code == 0
    files = sorted(path.name for path in Path().glob("*.jsonl"))
    assert [name.split("-")[1] for name in files] == ["orders", RELAY]
    assert all(f"1 written to {name}" in result.stdout for name in files)
    [line] = lines(Path(files[1]))
    assert (line["send"]["QueueUrl"], line["send"]["MessageBody"]) == (None, "event")


def test_the_file_is_for_its_owner_alone(shop: Shop) -> None:
    shop.give_up("{")
    purge("--yes", "--export", "out")
    assert Path("out").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_already_is_kept_and_nothing_is_deleted(shop: Shop) -> None:
    shop.give_up("{")
    Path("out").write_text("precious")
    result = purge("--yes", "--export", "out")
    assert result.exit_code == 1
    assert "nothing was deleted; name another file" in " ".join(result.stderr.split())
    assert Path("out").read_text() == "precious"
    assert shop.hidden() == 0
    assert len(shop.letters()) == 1


def test_a_file_that_cannot_be_written_keeps_the_letters(shop: Shop) -> None:
    shop.give_up("{")
    result = purge("--yes", "--export", "no/such/folder/out")
    assert result.exit_code == 1
    assert len(shop.letters()) == 1


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_it_asks_first(shop: Shop, answer: str, left: int) -> None:
    shop.give_up("{")
    result = purge("--export", "out", answer=answer)
    assert "delete 1 dead letters?" in result.stdout
    assert result.exit_code == left
    assert shop.hidden() == 0
    assert len(shop.letters()) == left
    assert Path("out").exists() is not bool(left)


def test_a_dry_run_shows_what_would_be_deleted(shop: Shop) -> None:
    shop.give_up("{")
    result = purge("--dry-run", "--export", "out")
    assert result.exit_code == 0
    assert "unparseable" in result.stdout
    assert not Path("out").exists()
    assert len(shop.letters()) == 1


def test_filters_and_names_choose(shop: Shop) -> None:
    shop.give_up(note("a"), note("b"), error=ValueError())
    shop.give_up("{")
    assert purge("--yes", "--reason", "unparseable", "--export", "1").exit_code == 0
    assert len(shop.letters()) == 2
    first, second = shop.letters()
    assert purge(first.message_id[:9], "--yes", "--export", "2").exit_code == 0
    assert [letter.message_id for letter in shop.letters()] == [second.message_id]


def test_nothing_to_delete_asks_nothing_and_writes_no_file(shop: Shop) -> None:
    result = purge()
    assert result.exit_code == 0
    assert "looked at 0 of about 0" in result.stdout
    assert not list(Path().glob("*.jsonl"))


def test_a_letter_that_was_not_deleted_is_told(shop: Shop) -> None:
    shop.give_up("{", "[")
    answers = [(OK, {"Successful": [{"Id": "1"}], "Failed": [{"Id": "0", **REFUSED}]})]
    answer_with("sqs.DeleteMessageBatch", lambda params: answers.pop() if answers else None)
    kept = shop.letters()[0].message_id
    result = purge("--yes", "--export", "out")
    assert result.exit_code == 1
    assert f"{kept}: Odd no" in result.stderr
    assert len(lines(Path("out"))) == 2


def test_names_and_filters_do_not_go_together(cloud: Cloud) -> None:
    assert run("dlq", "purge", "abc", "--reason", "died").exit_code == 2
