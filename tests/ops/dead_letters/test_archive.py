"""`dlq purge` deletes what an archive holds, and `dlq import` puts it back as it was, once."""

import json
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from once.names import RELAY, DeadLetterAttribute, Limits, StackOutput
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters import archive as archive_module
from once.ops.dead_letters import queue_walk
from once.ops.dead_letters.archive import RETENTION, Archives, archived_line, read_line, safe_until
from once.ops.dead_letters.dead_letter import WAITS, DeadLetter, DeadLetterQueue
from once.ops.dead_letters.queue_walk import HOLD_SECONDS, QueueWalk
from once.ops.errors import ExitCode
from once.ops.operator_notes import Archive, notes_of, write_archive
from tests.ops import support
from tests.ops.shop import Shop, note


@pytest.fixture
def unread(shop: Shop) -> Shop:
    """A shop with one dead letter."""
    shop.dead_letter("{")
    return shop


def purge(*options: object) -> str:
    """Purge every dead letter."""
    return support.stdout_of("dlq", "purge", "--yes", "--all", "--why", "tidy", *options)


def only_archive() -> Archive:
    [found] = notes_of(Deployment.find()).archives
    return found


def archived() -> list[Any]:
    """Return the messages of the only archive."""
    return Archives(Deployment.find()).read(only_archive())


def test_a_purge_without_a_question_needs_a_reason_and_a_choice(shop: Shop) -> None:
    shop.fail("a")
    chosen = ("--reason", "retries-exhausted")
    assert "say why" in support.stderr_of("dlq", "purge", "--yes", *chosen, code=2)
    said = support.stderr_of("dlq", "purge", "--yes", "--why", "tidy", code=2)
    assert "is for every dead letter" in said
    assert len(shop.dead_letters()) == 1
    support.stdout_of("dlq", "purge", "--yes", "--why", "tidy", *chosen)
    assert shop.dead_letters() == []


def test_messages_are_archived_with_a_note_before_they_are_deleted(
    unread: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "_PIECE_BYTES", 200)
    monkeypatch.setattr(archive_module, "_PIECES_PER_SECOND", 1000)
    steps: list[str] = []

    def noted(params: Any) -> None:
        [item] = json.loads(params["body"])["TransactItems"]
        steps.append(item["Update"]["Key"]["pk"]["S"].split("#")[1])

    support.answer_with("dynamodb.TransactWriteItems", noted)
    support.answer_with("sqs.DeleteMessageBatch", lambda params: steps.append("delete"))
    unread.dead_letter("[")
    unread.cloud.bury(RELAY, "event")
    said = purge()
    found = only_archive()
    assert steps == [*["archive"] * found.pieces, "operators", "delete", "delete"]
    assert found.pieces > 2
    assert (found.consumers, found.why) == ({"orders": 2, RELAY: 1}, "tidy")
    assert "3 dead letters archived until 20" in said
    assert f"`once dlq import {found.name}` is safe until 20" in said
    intent, _ = unread.cloud.logged()
    assert intent["arguments"]["archive"] == found.name
    assert len(archived()) == 3


def test_archives_are_listed_until_they_are_over(
    unread: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    purge()
    [found] = json.loads(support.stdout_of("dlq", "archives", "--json"))["archives"]
    assert (found["consumers"], found["why"]) == ({"orders": 1}, "tidy")
    listed = support.words(support.stdout_of("dlq", "archives"))
    assert f"{found['name']}" in listed
    assert "moto" in listed
    item = unread.cloud.dynamodb.get_item(
        TableName=unread.records.name, Key={"pk": {"S": f"#archive#{found['name']}#0"}}
    )["Item"]
    left = int(item["expires_at"]["N"]) - time.time()
    assert abs(left - RETENTION.total_seconds()) < 60
    write_archive(Deployment.find(), replace(only_archive(), until=datetime.now(UTC)))
    assert "no archives" in support.stdout_of("dlq", "archives")


TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


@pytest.mark.parametrize(
    "commands",
    [
        [("redrive", "--yes", "--returning")],
        [("purge", "--yes", "--all", "--why", "tidy"), ("import", "--yes", "20")],
    ],
    ids=["redrive", "import"],
)
def test_a_message_keeps_its_trace_header(shop: Shop, commands: list[tuple[str, ...]]) -> None:
    trace = {"AWSTraceHeader": {"StringValue": TRACE, "DataType": "String"}}
    queue = shop.aws.queue
    shop.sqs.send_message(QueueUrl=queue, MessageBody="{", MessageSystemAttributes=trace)
    shop.work_off()
    sent = support.requests_of("sqs.SendMessageBatch")
    for command in commands:
        support.stdout_of("dlq", *command)
    assert [each["MessageSystemAttributes"] for [each] in (one["Entries"] for one in sent)] == [
        trace
    ]


def test_no_message_is_deleted_if_the_archive_cannot_be_written(unread: Shop) -> None:
    support.refuse("dynamodb.TransactWriteItems")
    assert "AccessDenied" in support.stderr_of("dlq", "purge", "--yes", "--all", "--why", "tidy")
    assert unread.hidden() == 0
    assert len(unread.dead_letters()) == 1


def test_purge_asks_for_confirmation_and_a_dry_run_only_shows(unread: Shop) -> None:
    assert "unparseable" in support.stdout_of("dlq", "purge", "--dry-run")
    for answer, left in (("n\n", 1), ("", 1), ("y\n", 1), ("y\ntidy\n", 0)):
        assert notes_of(Deployment.find()).archives == []
        result = support.run("dlq", "purge", answer=answer)
        assert "archive and delete 1 dead letter?" in result.stderr
        assert ("nothing was changed: " in result.stderr) is bool(left)
        assert result.exit_code == left
        assert unread.hidden() == 0
        assert len(unread.dead_letters()) == left
    assert len(archived()) == 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds by which the clock of the walk is ahead."""
    ahead = [0.0]
    monkeypatch.setattr(queue_walk, "time", SimpleNamespace(time=lambda: time.time() + ahead[0]))
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


def test_message_that_another_command_took_while_the_prompt_was_open_is_not_deleted(
    unread: Shop, clock: list[float], walks: list[QueueWalk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine slept. SQS accepts a renewal by the old receive, so that nothing else tells."""

    def decide(*_: object, **__: object) -> bool:
        clock[0] += HOLD_SECONDS
        unread.show_hidden()
        assert len(unread.dead_letters()) == 1
        list(walks[0].renewals())
        return True

    monkeypatch.setattr("typer.confirm", decide)
    result = support.run("dlq", "purge", "--why", "tidy")
    assert result.exit_code == 1
    assert "1 dead letter could not be held while this command waited" in support.words(
        result.stderr
    )
    assert len(unread.dead_letters()) == 1
    assert notes_of(Deployment.find()).archives == []


@pytest.mark.parametrize("stolen_by", ["the clock", "SQS"])
def test_message_whose_hold_ends_after_the_archive_is_not_deleted(
    unread: Shop, clock: list[float], monkeypatch: pytest.MonkeyPatch, stolen_by: str
) -> None:
    if stolen_by == "SQS":
        support.fail_entries("sqs.ChangeMessageVisibilityBatch", support.REFUSED_ENTRY, times=9)

    def slowly(*arguments: Any) -> int:
        clock[0] += HOLD_SECONDS if stolen_by == "the clock" else 0
        return write(*arguments)

    write = Archives.write
    monkeypatch.setattr(Archives, "write", slowly)
    said = support.stderr_of("dlq", "purge", "--yes", "--all", "--why", "tidy")
    assert "its hold ended before it was deleted" in said
    assert len(archived()) == 1
    assert len(unread.dead_letters()) == 1


def test_message_that_was_not_deleted_is_reported(unread: Shop) -> None:
    unread.dead_letter("[")
    support.fail_entries("sqs.DeleteMessageBatch", support.REFUSED_ENTRY, 0)
    kept = unread.dead_letters()[0].message_id
    said = support.stderr_of("dlq", "purge", "--yes", "--all", "--why", "tidy")
    assert f"{kept}: InvalidParameter too odd" in said
    assert len(archived()) == 2


NAME = "20"
"""The beginning of an archive's name is enough."""


def import_(*options: object) -> dict[str, str]:
    """Import the messages; return the numbers of the table."""
    return support.numbers(support.stdout_of("dlq", "import", "--yes", NAME, *options))


@pytest.fixture
def purged(shop: Shop) -> Shop:
    """A shop with an archive of the two messages `a` and `b`, which are deleted."""
    shop.fail("a", "b")
    purge()
    return shop


BINARY = {"DataType": "Binary", "BinaryValue": b"\x00\xff"}


def messages(shop: Shop) -> list[tuple[str, Any]]:
    """Body and attributes of every dead letter, as SQS has them."""
    found = [message.received for message in shop.dead_letters()]
    return sorted((one["Body"], one.get("MessageAttributes", {})) for one in found)


@pytest.mark.parametrize(
    "body",
    [
        '{"é": "\\ud83d\\ude00 \U0001f600",\r\n\t "2": 1.0}  ',
        "x" * Limits.MESSAGE_BYTES,  # compressed in the message
    ],
    ids=["text", "compressed"],
)
def test_message_is_back_byte_by_byte(shop: Shop, body: str) -> None:
    shop.outside.faults = {"a": ValueError("boom")}
    attributes = {} if len(body) == Limits.MESSAGE_BYTES else {"raw": BINARY}
    shop.sqs.send_message(QueueUrl=shop.aws.queue, MessageBody=body, MessageAttributes=attributes)
    shop.work_off(receive_count=5)
    before = messages(shop)
    purge()
    assert shop.dead_letters() == []
    assert import_()["imported"] == "1"
    assert messages(shop) == before


def test_relays_and_unrouted_messages_go_back_to_their_queues(shop: Shop) -> None:
    shop.cloud.bury(RELAY, "event", reason="unpublishable")
    shop.cloud.bury("unrouted", "{", reason="no-type")
    purge()
    assert (shop.cloud.left(RELAY), shop.cloud.left("unrouted")) == (0, 0)
    assert import_()["imported"] == "2"
    assert (shop.cloud.left(RELAY), shop.cloud.left("unrouted")) == (1, 1)


FIRST_SEEN = datetime.now(UTC).isoformat(timespec="milliseconds")
SENT = datetime.now(UTC).replace(microsecond=0) - timedelta(days=5)


def moved_message(shop: Shop, **attributes: Any) -> None:
    """Let SQS move a message that was sent five days ago, as the commands see it."""

    def move(answer: Any) -> None:
        for message in answer.get("Messages", []):
            if DeadLetterAttribute.FIRST_SEEN not in message.get("MessageAttributes", {}):
                message["Attributes"] |= {
                    "SentTimestamp": str(int(SENT.timestamp() * 1000)),
                    "DeadLetterQueueSourceArn": "arn:aws:sqs:::queue",
                }

    support.add_to_answer("sqs.ReceiveMessage", move)
    shop.sqs.send_message(
        QueueUrl=shop.box.url, MessageBody=json.dumps(note("a")), MessageAttributes=attributes
    )


@pytest.mark.parametrize("count", [9, 10])
def test_message_that_sqs_moved_keeps_the_time_of_its_first_receive(shop: Shop, count: int) -> None:
    text = {"DataType": "String", "StringValue": "x"}
    moved_message(shop, **{f"a{number}": text for number in range(count)})
    original = shop.only_dead_letter().original
    purge()
    assert import_()["imported"] == "1"
    message = shop.only_dead_letter()
    assert message.first_seen == SENT
    assert message.original == original
    assert import_()["there already"] == "1"


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_message_group_is_kept_on_both_kinds_of_queues(suffix: str) -> None:
    queue = DeadLetterQueue("orders", f"https://sqs/1/letters{suffix}", "https://sqs/1/orders")
    system = {
        "SentTimestamp": "1800000000000",
        "ApproximateReceiveCount": "1",
        "MessageGroupId": "tenant-1",
    }
    message: Any = {"MessageId": "m", "ReceiptHandle": "r", "Body": "{", "Attributes": system}
    line = archived_line(DeadLetter.read(queue, message)).encode()
    first, second = (read_line(line).entry() for _ in range(2))
    assert first["MessageGroupId"] == second["MessageGroupId"] == "tenant-1"
    ids = {one.get("MessageDeduplicationId") for one in (first, second)}
    assert len(ids) == (2 if suffix else 1)  # SQS drops a second message of one id
    assert (None in ids) is not bool(suffix)


@pytest.mark.parametrize("moved", [True, False])
def test_messages_of_a_fifo_queue_are_back_in_their_order_as_far_as_sqs_takes_them(
    shop: Shop, *, moved: bool
) -> None:
    url = shop.sqs.create_queue(QueueName="dead.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    shop.cloud.service[f"{StackOutput.DEAD_LETTERS}Orders"] = url
    for number, name in enumerate(("a-1", "a-2", "a-3", "b-1")):
        # A message of a consumer is a group of its own, and names that of its message.
        own = support.facts(reason="permanent", first_seen=FIRST_SEEN, group=f"{name[0]} {number}")
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
        failed = [{"Id": "0", **support.REFUSED_ENTRY}]
        return support.OK, {"Failed": failed if refused.pop() else []}

    def names() -> list[str]:
        with QueueWalk(shop.sqs, [DeadLetterQueue("orders", url, None)], 10) as walk:
            messages = [message for page in walk.pages() for message in page]
        return [json.loads(message.original.body)["data"]["name"] for message in messages]

    support.answer_with("sqs.SendMessageBatch", refuse_once)
    assert WAITS in support.stderr_of("dlq", "import", "--yes", NAME)
    assert names() == ["a-1", "b-1"]
    assert import_()["imported"] == "2"
    # SQS numbers the messages anew; the place of a consumer's message is in its attribute.
    assert names() == (["a-1", "b-1", "a-2", "a-3"] if moved else ["a-1", "a-2", "a-3", "b-1"])


def test_second_import_finds_the_messages_there(purged: Shop) -> None:
    assert import_("--dry-run")["imported"] == "2"
    assert purged.dead_letters() == []
    ids = [line.message_id for line in archived()]
    assert import_()["imported"] == "2"
    for options in ((), ("--again",)):
        told = json.loads(support.stdout_of("dlq", "import", "--yes", NAME, "--json", *options))
        assert (told["imported"], told["there_already"]) == (0, ids)
    assert len(purged.dead_letters()) == 2


def test_equal_messages_are_counted(shop: Shop) -> None:
    for _ in range(2):
        shop.cloud.bury("orders", "{", reason="unparseable", first_seen="2026-01-01T00:00:00Z")
    purge()
    shop.cloud.bury("orders", "{", reason="unparseable", first_seen="2026-01-01T00:00:00Z")
    found = import_("--unsafe")
    assert (found["imported"], found["there already"]) == ("1", "1")


def test_message_that_was_imported_and_redriven_is_not_imported_again_unawares(
    purged: Shop,
) -> None:
    import_()
    assert purged.dead_letters()
    support.run("dlq", "redrive", "--yes", "--rate", 1000)
    assert purged.dead_letters() == []
    said = support.stderr_of("dlq", "import", "--yes", NAME)
    assert "2 imported before, and redriven or purged since; --again imports them" in said
    assert purged.dead_letters() == []
    assert import_("--again")["imported"] == "2"


def test_nothing_is_imported_while_another_command_hides_messages(purged: Shop) -> None:
    purged.fail("c")
    with QueueWalk(purged.sqs, [purged.box], limit=2) as walk:
        assert [*walk.pages()]
        result = support.run("dlq", "import", "--yes", NAME)
    assert result.exit_code == ExitCode.HIDDEN
    assert "nothing was imported: it may be there already" in support.words(result.stderr)
    assert len(purged.dead_letters()) == 1


def test_nothing_is_imported_if_not_every_message_there_was_seen(purged: Shop) -> None:
    purged.fail("c", "d")
    assert "raise --limit" in support.stderr_of("dlq", "import", "--yes", NAME, "--limit", 1)
    assert len(purged.dead_letters()) == 2


def rewrite(change: Callable[[str], str]) -> None:
    """Change the lines of the only archive."""
    found, archives = only_archive(), Archives(Deployment.find())
    packed = b"".join(
        archives._get(archives._key(f"{found.name}#{n}"))["piece"]["B"] for n in range(found.pieces)
    )
    archives.write(found.name, [change(zlib.decompress(packed).decode())], found.until)


def with_line(line: str) -> Callable[[str], str]:
    return lambda text: f"{text}{line}\n"


def test_archive_with_another_line_is_refused_without_its_text(purged: Shop) -> None:
    for line in ("no JSON", "{}", '{"consumer": "orders", "message_id": 1}', "customer-7"):
        rewrite(with_line(line))
        said = support.stderr_of("dlq", "import", "--yes", NAME)
        assert "cannot be read (a line is no" in said
        assert "nothing was imported" in said
        assert "customer-7" not in said
    assert purged.dead_letters() == []


def test_a_name_of_no_archive_or_of_several_is_refused(purged: Shop) -> None:
    for name in ("x", ""):
        assert f"there is no archive {name!r}" in support.stderr_of("dlq", "import", "--yes", name)
    purged.fail("c")
    purge()
    assert "several archives begin with '20'" in support.stderr_of("dlq", "import", "--yes", NAME)


def expire(seconds: float | None) -> None:
    """Let the messages of the archive be safe for so long from now; None stands for not known."""
    until = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)

    def change(text: str) -> str:
        lines = map(json.loads, text.splitlines())
        changed = [{**line, "safe_until": until and until.isoformat()} for line in lines]
        return "".join(json.dumps(line) + "\n" for line in changed)

    rewrite(change)


@pytest.mark.parametrize(("seconds", "refused"), [(60, False), (-1, True), (None, True)])
def test_message_past_its_time_is_imported_with_unsafe_only(
    purged: Shop, seconds: float | None, *, refused: bool
) -> None:
    expire(seconds)
    if refused:
        assert "2 past their safe_until: their keys may be" in support.stderr_of(
            "dlq", "import", "--yes", NAME
        )
        assert purged.dead_letters() == []
    assert import_("--unsafe" if refused else "--again")["imported"] == "2"


@pytest.mark.parametrize("made", [None, datetime.now(UTC) - timedelta(days=20)])
def test_safe_until_is_the_time_from_which_a_redrive_is_refused(
    shop: Shop, made: datetime | None
) -> None:
    event = note("a") | ({"time": made.isoformat()} if made else {})
    shop.dead_letter(event, error=ValueError("boom"))
    until = safe_until(shop.only_dead_letter())
    assert until is not None
    left = (until - datetime.now(UTC)).total_seconds()
    assert shop.verdict(in_seconds=left - 5).safe
    assert not shop.verdict(in_seconds=left + 5).safe


def test_messages_of_a_renamed_consumer_are_imported_into_a_named_queue(purged: Shop) -> None:
    rewrite(lambda text: text.replace('"orders"', '"gone"'))
    assert "no consumer 'gone'" in support.stderr_of("dlq", "import", "--yes", NAME)
    assert import_("--into", "orders")["imported"] == "2"
    assert len(purged.dead_letters()) == 2


def test_reason_that_a_producer_forged_does_not_become_the_messages(shop: Shop) -> None:
    moved_message(
        shop, **{DeadLetterAttribute.REASON: {"DataType": "String", "StringValue": "permanent"}}
    )
    purge()
    import_()
    assert shop.only_dead_letter().reason is None
