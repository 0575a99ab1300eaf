"""`dlq import`: the letters of a purge's export are back in their queues, as they were."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from once.ops.dead_letters.letter import DeadLetterQueue, Letter
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dlq._exported_letter import exported_line, read_line, safe_until
from once.ops.errors import ExitCode
from once.schema import RELAY, DeadLetter, Limits
from tests.ops.letters import Shop, note
from tests.ops.output import numbers, stderr_of, stdout_of, words
from tests.ops.support import REFUSED_ENTRY, add_to_answer, fail_entries, run

FILE = "purged.jsonl"
BINARY = {"DataType": "Binary", "BinaryValue": b"\x00\xff"}


@pytest.fixture
def shop(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop; files go into a temporary folder."""
    monkeypatch.chdir(tmp_path)
    return shop


@pytest.fixture
def purged(shop: Shop) -> Shop:
    """The same with an export of the two letters `a` and `b`, which are deleted."""
    shop.fail("a", "b")
    purge()
    return shop


def purge() -> None:
    stdout_of("dlq", "purge", "--yes", "--export", FILE)


def import_(*options: object) -> dict[str, str]:
    return numbers(stdout_of("dlq", "import", FILE, *options))


def messages(shop: Shop) -> list[tuple[str, Any]]:
    """Body and attributes of every dead letter, as SQS has them."""
    found = [letter.received for letter in shop.letters()]
    return sorted((one["Body"], one.get("MessageAttributes", {})) for one in found)


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(FILE).read_text().splitlines()]


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(note("a")),
        '{"é": "\\ud83d\\ude00 \U0001f600",\r\n\t "2": 1.0}  ',
        "x" * Limits.MESSAGE_BYTES,  # compressed in the letter
    ],
    ids=["event", "text", "compressed"],
)
def test_letter_is_back_byte_by_byte(shop: Shop, body: str) -> None:
    shop.outside.faults = {"a": ValueError("boom")}
    attributes = {} if len(body) == Limits.MESSAGE_BYTES else {"raw": BINARY}
    shop.sqs.send_message(QueueUrl=shop.aws.queue, MessageBody=body, MessageAttributes=attributes)
    shop.work_off(receive_count=5)
    before = messages(shop)
    purge()
    assert shop.letters() == []
    assert import_()["imported"] == "1"
    assert messages(shop) == before


def test_imported_letter_is_redriven_with_its_history_and_committed_once(purged: Shop) -> None:
    import_()
    ended = run("dlq", "redrive", "--yes", "--rate", 1000)
    assert ended.exit_code == 0, ended.output
    purged.outside.faults = {"b": ValueError("boom")}
    purged.work_off(receive_count=5)
    assert purged.counted() == {"a": 1}
    assert len(purged.letter().lineage) == 2


def test_relays_and_unrouted_letters_go_back_to_their_queues(shop: Shop) -> None:
    shop.cloud.bury(RELAY, "event", reason="unpublishable")
    shop.cloud.bury("unrouted", "{", reason="no-type")
    purge()
    assert (shop.cloud.left(RELAY), shop.cloud.left("unrouted")) == (0, 0)
    assert import_()["imported"] == "2"
    assert (shop.cloud.left(RELAY), shop.cloud.left("unrouted")) == (1, 1)


SENT = datetime.now(UTC).replace(microsecond=0) - timedelta(days=5)


def moved_letter(shop: Shop, **attributes: Any) -> None:
    """Let SQS move a message that was sent five days ago, as the commands see it."""

    def move(answer: Any) -> None:
        for message in answer.get("Messages", []):
            if DeadLetter.FIRST_SEEN not in message.get("MessageAttributes", {}):
                message["Attributes"] |= {
                    "SentTimestamp": str(int(SENT.timestamp() * 1000)),
                    "DeadLetterQueueSourceArn": "arn:aws:sqs:::queue",
                }

    add_to_answer("sqs.ReceiveMessage", move)
    shop.sqs.send_message(
        QueueUrl=shop.box.url, MessageBody=json.dumps(note("a")), MessageAttributes=attributes
    )


@pytest.mark.parametrize("count", [0, 9, 10])
def test_letter_that_sqs_moved_keeps_the_time_of_its_first_receive(shop: Shop, count: int) -> None:
    text = {"DataType": "String", "StringValue": "x"}
    moved_letter(shop, **{f"a{number}": text for number in range(count)})
    original = shop.letter().original
    purge()
    assert import_()["imported"] == "1"
    letter = shop.letter()
    assert letter.first_seen == SENT
    assert letter.original == original
    assert import_()["there already"] == "1"


def test_reason_that_a_producer_forged_does_not_become_the_letters(shop: Shop) -> None:
    moved_letter(shop, **{DeadLetter.REASON: {"DataType": "String", "StringValue": "permanent"}})
    purge()
    assert lines()[0]["reason"] is None
    import_()
    assert shop.letter().reason is None


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_message_group_is_kept_on_both_kinds_of_queues(suffix: str) -> None:
    queue = DeadLetterQueue("orders", f"https://sqs/1/letters{suffix}", "https://sqs/1/orders")
    system = {
        "SentTimestamp": "1800000000000",
        "ApproximateReceiveCount": "1",
        "MessageGroupId": "tenant-1",
    }
    message: Any = {"MessageId": "m", "ReceiptHandle": "r", "Body": "{", "Attributes": system}
    line = exported_line(Letter.read(queue, message)).encode()
    first, second = (read_line(line).entry() for _ in range(2))
    assert first["MessageGroupId"] == second["MessageGroupId"] == "tenant-1"
    ids = {one.get("MessageDeduplicationId") for one in (first, second)}
    assert len(ids) == (2 if suffix else 1)  # SQS drops a second message of one id
    assert (None in ids) is not bool(suffix)


def test_second_import_finds_the_letters_there(purged: Shop) -> None:
    assert import_()["imported"] == "2"
    for options in ((), ("--again",)):
        found = import_(*options)
        assert (found["imported"], found["there already"]) == ("0", "2")
    assert len(purged.letters()) == 2


def test_equal_letters_are_counted(shop: Shop) -> None:
    for _ in range(2):
        shop.cloud.bury("orders", "{", reason="unparseable", first_seen="2026-01-01T00:00:00Z")
    purge()
    shop.cloud.bury("orders", "{", reason="unparseable", first_seen="2026-01-01T00:00:00Z")
    found = import_("--unsafe")
    assert (found["imported"], found["there already"]) == ("1", "1")


def test_letter_that_was_imported_and_redriven_is_not_imported_again_unawares(
    purged: Shop,
) -> None:
    import_()
    assert purged.letters()
    run("dlq", "redrive", "--yes", "--rate", 1000)
    assert purged.letters() == []
    said = stderr_of("dlq", "import", FILE)
    assert "2 imported before, and redriven or purged since; --again imports them" in said
    assert purged.letters() == []
    assert import_("--again")["imported"] == "2"


def test_import_that_is_interrupted_is_completed_by_the_next(purged: Shop) -> None:
    fail_entries("sqs.SendMessageBatch", REFUSED_ENTRY, 1)
    first, second = (line["message_id"] for line in lines())
    assert f"{second}: InvalidParameter too odd" in stderr_of("dlq", "import", FILE)
    assert import_()["imported"] == "1"
    assert len(purged.letters()) == 2
    assert first in Path(f"{FILE}.imported").read_text()


def test_dry_run_imports_nothing(purged: Shop) -> None:
    assert import_("--dry-run")["imported"] == "2"
    assert purged.letters() == []
    assert not Path(f"{FILE}.imported").exists()


def test_nothing_is_imported_while_another_command_hides_letters(purged: Shop) -> None:
    purged.fail("c")
    with QueueWalk(purged.sqs, [purged.box], limit=2) as walk:
        assert [*walk.pages()]
        result = run("dlq", "import", FILE)
    assert result.exit_code == ExitCode.HIDDEN
    assert "nothing was imported: it may be there already" in words(result.stderr)
    assert len(purged.letters()) == 1


def test_nothing_is_imported_if_not_every_letter_there_was_seen(purged: Shop) -> None:
    purged.fail("c", "d")
    assert "raise --limit" in stderr_of("dlq", "import", FILE, "--limit", 1)
    assert len(purged.letters()) == 2


@pytest.mark.parametrize(
    "line", ["no JSON", "{}", '{"consumer": "orders", "message_id": 1}', "customer-7"]
)
def test_file_that_is_no_export_is_refused_with_the_line_and_without_its_text(
    purged: Shop, line: str
) -> None:
    with Path(FILE).open("a") as file:
        file.write(f"{line}\n")
    said = stderr_of("dlq", "import", FILE)
    assert f"line 3 of {FILE}: it is no" in said
    assert "nothing was imported" in said
    assert "customer-7" not in said
    assert purged.letters() == []


def expire(seconds: float | None) -> None:
    """Let the letters of the export be safe for so long from now; None stands for not known."""
    until = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
    changed = [{**line, "safe_until": until and until.isoformat()} for line in lines()]
    Path(FILE).write_text("".join(json.dumps(line) + "\n" for line in changed))


@pytest.mark.parametrize(("seconds", "refused"), [(60, False), (-1, True), (None, True)])
def test_letter_past_its_time_is_imported_with_unsafe_only(
    purged: Shop, seconds: float | None, *, refused: bool
) -> None:
    expire(seconds)
    if refused:
        assert "2 past their safe_until: their keys may be" in stderr_of("dlq", "import", FILE)
        assert purged.letters() == []
    assert import_("--unsafe" if refused else "--again")["imported"] == "2"


@pytest.mark.parametrize("made", [None, datetime.now(UTC) - timedelta(days=20)])
def test_safe_until_is_the_time_from_which_a_redrive_is_refused(
    shop: Shop, made: datetime | None
) -> None:
    event = note("a") | ({"time": made.isoformat()} if made else {})
    shop.give_up(event, error=ValueError("boom"))
    until = safe_until(shop.letter())
    assert until is not None
    left = (until - datetime.now(UTC)).total_seconds()
    assert shop.verdict(in_seconds=left - 5).safe
    assert not shop.verdict(in_seconds=left + 5).safe


def test_safe_until_is_not_known_without_the_producers_time(shop: Shop) -> None:
    shop.give_up(note("a") | {"time": "yesterday"}, error=ValueError("boom"))
    assert safe_until(shop.letter()) is None


def test_journal_that_cannot_be_written_stops_the_import(purged: Shop) -> None:
    Path(f"{FILE}.imported").mkdir()
    assert "cannot be read" in stderr_of("dlq", "import", FILE)
    assert purged.letters() == []


def test_letters_of_a_renamed_consumer_are_imported_into_a_named_queue(purged: Shop) -> None:
    Path(FILE).write_text(Path(FILE).read_text().replace('"orders"', '"gone"'))
    assert "no consumer 'gone'" in stderr_of("dlq", "import", FILE)
    assert import_("--into", "orders")["imported"] == "2"
    assert len(purged.letters()) == 2


def test_json_names_the_letters_by_their_ids_in_the_export(purged: Shop) -> None:
    ids = [line["message_id"] for line in lines()]
    stdout_of("dlq", "import", FILE)
    result = run("dlq", "import", FILE, "--json")
    assert json.loads(result.stdout) == {
        "dry_run": False,
        "imported": 0,
        "there_already": ids,
        "imported_before": [],
        "past_safe_until": [],
        "failed": {},
    }
