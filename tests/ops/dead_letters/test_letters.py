"""What is read of a dead letter: the message as it was, and what was said of it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from once.errors import PermanentError
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import DeadLetterQueue, Letter, dead_letter_queues
from once.ops.dead_letters.queue_history import QueueStay, lineage_text, read_lineage
from once.schema import RELAY, UNROUTED, Limits
from tests.ops.letters import Shop, note

BOX = DeadLetterQueue("orders", "https://sqs.example/1/dead", "https://sqs.example/1/queue")
FIFO = DeadLetterQueue(
    "orders", "https://sqs.example/1/dead.fifo", "https://sqs.example/1/queue.fifo"
)

HASH = "0a" * 32


def letter(
    box: DeadLetterQueue = BOX, /, system: dict[str, str] | None = None, **facts: str
) -> Letter:
    """A letter with these attributes, their names without the prefix."""
    attributes = {
        f"once-{name.replace('_', '-')}": {"DataType": "String", "StringValue": value}
        for name, value in facts.items()
    }
    message: Any = {
        "MessageId": "m-9",
        "ReceiptHandle": "r",
        "Body": "{}",
        "Attributes": {
            "SentTimestamp": "1700000000000",
            "ApproximateReceiveCount": "7",
            **(system or {}),
        },
        "MessageAttributes": attributes,
    }
    return Letter.read(box, message)


def test_a_quarantined_message_is_read_as_its_consumer_left_it(shop: Shop) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    message_id = shop.send(note("a"), tenant="t-1")
    shop.outside.faults["a"] = PermanentError("no such counter")
    shop.work_off(receive_count=3)
    found = shop.letter()
    assert (found.reason, found.error) == ("permanent", "PermanentError: no such counter")
    assert found.queue.owner == "orders"
    assert found.receive_count == 3
    assert found.lineage == (QueueStay(message_id),)
    assert before < found.first_seen <= found.sent_at
    assert json.loads(found.original.body) == note("a")
    assert found.original.attributes["tenant"]["stringValue"] == "t-1"
    assert not found.moved


def test_a_message_that_sqs_moved_has_no_reason_and_is_its_own_last_stay(shop: Shop) -> None:
    shop.move(note("a"))
    found = shop.letter()
    assert (found.moved, found.reason, found.error, found.key_hash) == (True, None, None, None)
    assert found.lineage == (QueueStay(found.message_id),)
    assert found.first_seen == found.sent_at


def test_what_was_said_before_sqs_moved_it_is_not_said_of_this_time() -> None:
    moved = letter(
        system={"DeadLetterQueueSourceArn": "arn"},
        reason="permanent",
        error="E: x",
        receive_count="1",
        lineage="m-1",
        key_hash=HASH,
    )
    assert (moved.reason, moved.error, moved.receive_count) == (None, None, 7)
    assert moved.lineage == (QueueStay("m-1"), QueueStay("m-9"))
    assert moved.key_hash == HASH


def test_a_compressed_message_is_read_whole(shop: Shop) -> None:
    body = "x" * Limits.MESSAGE_BYTES
    shop.send(body)
    shop.work_off()
    found = shop.letter()
    assert found.original.body == body
    assert found.reason == "too-large"


@pytest.mark.parametrize("first_seen", ["", "yesterday", "2026-13-01"])
def test_a_time_that_cannot_be_read_is_the_time_of_sending(first_seen: str) -> None:
    found = letter(reason="permanent", first_seen=first_seen, receive_count="many")
    assert found.first_seen == found.sent_at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert found.receive_count == 7


def test_a_time_without_an_offset_is_in_utc() -> None:
    found = letter(first_seen="2023-07-30T14:00:00")
    assert found.first_seen == datetime(2023, 7, 30, 14, tzinfo=UTC)


def test_only_a_fifo_queue_has_groups() -> None:
    system = {"MessageGroupId": "g"}
    assert letter(system=system).group is None
    assert letter(FIFO, system=system).group == "g"


def test_every_consumer_has_a_box_and_the_relay_comes_last(shop: Shop) -> None:
    found = dead_letter_queues(Deployment.find())
    assert [box.owner for box in found] == ["inventory", "orders", RELAY, UNROUTED]
    assert found[1] == shop.box
    assert found[-1].source_url is None
    assert dead_letter_queues(Deployment.find(), "orders") == [shop.box]
    assert dead_letter_queues(Deployment.find(), RELAY) == found[-2:-1]
    assert dead_letter_queues(Deployment.find(), UNROUTED) == found[-1:]


STAYS = (
    QueueStay("m-1", "permanent", "2026-07-30T14:00:00+00:00", edited=True),
    QueueStay("m-2", "died", "2026-07-31T14:00:00+00:00"),
    QueueStay("m-3"),
)


def test_a_lineage_is_read_as_it_was_written() -> None:
    text = lineage_text(STAYS)
    assert text.split(",") == [
        "m-1 permanent 2026-07-30T14:00:00+00:00 edited",
        "m-2 died 2026-07-31T14:00:00+00:00",
        "m-3",
    ]
    assert read_lineage(text) == STAYS


def test_a_lineage_of_ids_alone_is_read_too() -> None:
    assert read_lineage("m-1, m-2,,") == (QueueStay("m-1"), QueueStay("m-2"))
    assert read_lineage("") == ()


def test_an_end_notes_the_reason_the_time_and_the_edit() -> None:
    now = datetime(2026, 7, 30, 14, tzinfo=UTC)
    assert QueueStay("m-1").ended("permanent", now, edited=True) == STAYS[0]
    assert QueueStay("m-1").ended(None, now, edited=False).reason == "died"


def test_names_of_facts_are_the_contracts() -> None:
    found = letter(key_hash=HASH, reason="r", error="e", receive_count="3", lineage="m-1")
    assert (found.key_hash, found.reason, found.error) == (HASH, "r", "e")
    assert (found.receive_count, found.lineage) == (3, (QueueStay("m-1"),))
    assert found.unreadable == ()
