"""`dlq import`: the letters of a purge's export are back in their queues, as they were."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from once.names import RELAY, DeadLetter, Limits, StackOutput
from once.ops.dead_letters.export import exported_line, read_line
from once.ops.dead_letters.letter import WAITS, DeadLetterQueue, Letter
from once.ops.dead_letters.search import QueueWalk
from tests.ops.exports import FILE, import_, lines, purge
from tests.ops.letters import Shop
from tests.ops.notes import note
from tests.ops.output import stderr_of
from tests.ops.support import (
    OK,
    REFUSED_ENTRY,
    add_to_answer,
    answer_with,
    facts,
    fail_entries,
    run,
)

BINARY = {"DataType": "Binary", "BinaryValue": b"\x00\xff"}


@pytest.fixture
def shop(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop; files go into a temporary folder."""
    monkeypatch.chdir(tmp_path)
    return shop


def messages(shop: Shop) -> list[tuple[str, Any]]:
    """Body and attributes of every dead letter, as SQS has them."""
    found = [letter.received for letter in shop.letters()]
    return sorted((one["Body"], one.get("MessageAttributes", {})) for one in found)


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


FIRST_SEEN = datetime.now(UTC).isoformat(timespec="milliseconds")
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


@pytest.mark.parametrize("moved", [True, False])
def test_letters_of_a_fifo_queue_are_back_in_their_order_as_far_as_sqs_takes_them(
    shop: Shop, *, moved: bool
) -> None:
    url = shop.sqs.create_queue(QueueName="dead.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    shop.cloud.service[f"{StackOutput.DEAD_LETTERS}Orders"] = url
    for number, name in enumerate(("a-1", "a-2", "a-3", "b-1")):
        # A letter of a consumer is a group of its own, and names that of its message.
        own = facts(reason="permanent", first_seen=FIRST_SEEN, group=f"{name[0]} {number}")
        shop.sqs.send_message(
            QueueUrl=url,
            MessageBody=json.dumps(note(name)),
            MessageAttributes={} if moved else own,
            MessageGroupId=name[0] if moved else name,
            MessageDeduplicationId=name,
        )
    purge()

    refused = [True]

    def refuse_once(params: Any) -> Any:
        if b"id-a-2" not in params["body"] or not refused:
            return None
        failed = [{"Id": "0", **REFUSED_ENTRY}]
        return OK, {"Failed": failed if refused.pop() else []}

    def names() -> list[str]:
        with QueueWalk(shop.sqs, [DeadLetterQueue("orders", url, None)], 10) as walk:
            letters = [letter for page in walk.pages() for letter in page]
        return [json.loads(letter.original.body)["data"]["name"] for letter in letters]

    answer_with("sqs.SendMessageBatch", refuse_once)
    assert WAITS in stderr_of("dlq", "import", FILE)
    assert names() == ["a-1", "b-1"]
    assert import_()["imported"] == "2"
    # SQS numbers the letters anew; the place of a consumer's letter is in its attribute.
    assert names() == (["a-1", "b-1", "a-2", "a-3"] if moved else ["a-1", "a-2", "a-3", "b-1"])


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
