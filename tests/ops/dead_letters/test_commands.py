"""`dlq list` and `dlq show`, and reading the messages that they show."""

import gzip
import json
import shlex
import tracemalloc
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from typer import BadParameter

from once.errors import PermanentError
from once.events.identity import key_hash
from once.failures.quarantine import carried, text
from once.intake.original_message import OriginalMessage
from once.names import RELAY, UNROUTED, DeadLetterAttribute, Limits, explained_by
from once.ops.aws import clients
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters import dead_letter
from once.ops.dead_letters.dead_letter import DeadLetter, DeadLetterQueue
from once.ops.dead_letters.grouping import MessageRow, failure_groups, masked, read_groupings
from once.ops.dead_letters.queue_walk import SearchOptions
from once.ops.dead_letters.redrive import redriven_message
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import facts, rows, stderr_of, stdout_of

DIED = "no reason recorded: the function never finished it"
NOW = datetime.now(UTC)
FAILED, UNREAD = "retries-exhausted", "unparseable"


@pytest.fixture
def mixed(shop: Shop) -> Shop:
    """Two messages that failed, one unparseable, one moved by SQS, and one of the relay."""
    shop.fail("a", "b")
    shop.dead_letter("{")
    shop.move(note("c", "named"))
    shop.cloud.bury(RELAY, reason="unpublishable")
    return shop


def listed(*options: object) -> Any:
    return json.loads(stdout_of("dlq", "list", "--json", *options))


def test_messages_are_grouped_by_consumer_reason_and_error(mixed: Shop) -> None:
    output = stdout_of("dlq", "list")
    assert sorted(row[:3] for row in rows(output) if row[0]) == [
        ["orders", DIED, "1"],
        ["orders", FAILED, "2"],
        ["orders", UNREAD, "1"],
        [RELAY, "unpublishable", "1"],
    ]
    lines = [row[1] for row in rows(output) if not row[0] and row[1]]
    errors = [line.partition(":")[0] for line in lines if not line.startswith(("from ", "about "))]
    assert "from /test (2)" in lines
    assert sorted(errors) == ["Unexpected", "Unparseable", "no error recorded", "no error recorded"]
    assert "looked at 5 of about 5 dead letters" in output
    assert "looked at 2 of about 5 dead letters" in stdout_of("dlq", "list", "--limit", 2)
    assert "\x1b" not in output
    shown = {message_id for *_, ids in rows(output) for message_id in ids.split()}
    assert shown > {message.message_id[:8] for message in mixed.dead_letters()}


def row(name: str, minutes: int, **changes: Any) -> MessageRow:
    """A dead letter of a consumer, so many minutes old."""
    facts: dict[str, Any] = dict.fromkeys(field.name for field in fields(MessageRow))
    known = {"consumer": name, "reason": "permanent", "error": "no price"}
    sent_at = NOW - timedelta(minutes=minutes)
    return MessageRow(**facts | known | {"message_id": f"{minutes}", "sent_at": sent_at} | changes)


def test_the_newest_group_comes_first_with_its_trend() -> None:
    ages = {"old": [90, 3000, 100], "new": [2, 61, 62, 63, 500]}
    rows = [row(name, minutes) for name, some in ages.items() for minutes in some]
    groups = failure_groups(rows)
    assert [group.newest.consumer for group in groups] == ["new", "old"]
    assert [group.trend(NOW) for group in groups] == ["1, before 3", "0, before 2"]
    assert [group.rows[0].message_id for group in groups] == ["500", "3000"]


def test_groups_have_the_facts_that_are_asked_for_and_tell_whom_they_touch() -> None:
    rows = [
        row("orders", 1, producer="/shop", about="o-1"),
        row("inventory", 2, producer="/shop", about="o-2"),
        row("inventory", 3, producer="/till", about="o-2", error="no stock"),
        row("inventory", 70),
    ]
    shown = {by: failure_groups(rows, read_groupings(by)) for by in ("cause,producer", "hour")}
    first, *others = shown["cause,producer"]
    assert (first.title, len(first.rows)) == ("permanent: no price, /shop", 2)
    assert first.whom == ["at inventory (1), orders (1)", "about o-1, o-2"]
    assert [group.title for group in others] == [
        "permanent: no stock, /till",
        "permanent: no price, unreadable bodies",
    ]
    assert first.query == {"reason": "permanent", "error": "no price", "source": "/shop"}
    last = shown["hour"][-1]
    assert "because of permanent (1)" in last.whom
    assert last.title == f"{NOW - timedelta(minutes=70):%Y-%m-%d %H}:00 UTC"
    chosen = SearchOptions(since=last.query["since"], until=last.query["until"]).message_filter()
    assert [one.message_id for one in rows if one.matches(chosen)] == ["70"]
    with pytest.raises(BadParameter, match="consumer, cause, producer, hour"):
        read_groupings("cause,weekday")


def test_an_excerpt_shows_the_shape_of_a_body_and_no_value() -> None:
    assert masked('{"order_id": "ä-17",\n "lines": [{"s') == '{"order_id": "x-00", "lines": [{"x'
    assert masked('<order id="7">tea</order>') == '<order xx="0">xxx</order>'
    assert len(masked("7" * 1000)) == 200


def test_the_producer_selects_and_groups(mixed: Shop) -> None:
    mixed.dead_letter('{"specversion": "0.3", "source": "/till", "data": {"sou')
    assert len(listed("--source", "/till")["letters"]) == 1
    assert len(listed("--source", "/test")["letters"]) == 3
    assert len(listed("--source", "unreadable")["letters"]) == 2
    output = stdout_of("dlq", "list", "--by", "producer", "--excerpt")
    found = sorted(row[:3:2] for row in rows(output) if row[0])
    assert found == [["/test", "3"], ["/till", "1"], ["unreadable", "2"]]
    assert "at orders (3)" in output
    assert "--by / --excerpt" in stderr_of("dlq", "list", "--excerpt", "--json", code=2)


def test_json_has_metadata_without_bodies_or_texts_that_may_quote_them(mixed: Shop) -> None:
    before = mixed.dead_letters()
    output = stdout_of("dlq", "list", "--json")
    assert mixed.hidden() == 0
    found = json.loads(output)
    assert (found["looked_at"], found["approximate_number"]) == (5, 5)
    messages = {message["message_id"]: message for message in found["letters"]}
    for message in before:
        shown = messages[message.message_id]
        assert shown["consumer"] == "orders"
        assert shown["reason"] == message.reason
        assert shown["key_hash"] == (message.key and key_hash(message.key))
        assert shown["lineage"] == [stay.message_id for stay in message.lineage]
        assert shown["first_seen"] == message.first_seen.isoformat()
        assert shown["dead_lettered"] == message.sent_at.isoformat()
        # SQS counts each look as a receive.
        assert shown["receive_count"] == (message.receive_count + 1 if message.moved else 5)
    assert {message["error"] for message in messages.values()} == {
        "Unexpected",
        "Unparseable",
        None,
    }
    for secret in ("boom", "id-a", "specversion"):
        assert secret not in output
    assert [message.original for message in mixed.dead_letters()] == [
        one.original for one in before
    ]


def test_a_due_event_that_scheduler_could_not_publish_is_read_as_one_of_the_relay() -> None:
    event = {"type": "order.overdue", "source": "/once/orders", "time": "2027-01-15T08:30:00Z"}
    body, key = json.dumps({**event, "oncecause": "orders#e"}), "orders#e"
    given = {
        "ERROR_CODE": "AuthorizationErrorException",
        "ERROR_MESSAGE": "not authorized to perform: SNS:Publish",
        "SCHEDULE_ARN": "arn:aws:scheduler:us-east-1:123456789012:schedule/shop/1.a.0",
    }

    def read(owner: str, request: dict[str, str]) -> DeadLetter:
        attributes = {n: {"DataType": "String", "StringValue": v} for n, v in given.items()}
        message: Any = {
            "MessageId": "m",
            "ReceiptHandle": "r",
            "Body": json.dumps(request),
            "Attributes": {"SentTimestamp": "0", "ApproximateReceiveCount": "1"},
            "MessageAttributes": attributes,
        }
        return DeadLetter.read(DeadLetterQueue(owner, "url", None), message)

    found = read(RELAY, {"TopicArn": "topic", "Message": body})
    assert (found.reason, found.key, found.original.body) == ("unpublishable", key, body)
    assert found.error == (
        "EventBridge Scheduler could not publish order.overdue, due at 2027-01-15T08:30:00Z: "
        "AuthorizationErrorException: not authorized to perform: SNS:Publish"
    )
    assert read(RELAY, {"TopicArn": "topic"}).reason is None
    assert read("orders", {"TopicArn": "topic", "Message": body}).reason is None


FILTERS: dict[str, list[str | None]] = {
    f"--consumer orders --reason {UNREAD}": [UNREAD],
    "--reason died": [None],
    "--consumer inventory": [],
    f"--consumer {RELAY}": ["unpublishable"],
    "--error 'Unexpected: ValueError at meet:7: boom'": [FAILED, FAILED],
    "--error boom": [],
    "--key id-a": [FAILED],
    f"--key {KEY[:-1]}": [FAILED, FAILED],
    "--key field#named#name#str:c": [None],
    "--key field#noted#name#str:a": [],
    "--key id": [FAILED, FAILED],
    "--until 1m": [],
    f"--since 1m --reason {UNREAD}": [UNREAD],
    f"--until 2099-01-01 --reason {UNREAD}": [UNREAD],
    "--since 2099-01-01": [],
}


def test_filters_select_messages(mixed: Shop) -> None:
    found = {}
    for options in FILTERS:
        messages = listed(*shlex.split(options))["letters"]
        found[options] = sorted((message["reason"] for message in messages), key=str)
    assert found == FILTERS
    for options, said in (
        ("--reason bad-luck", "give one of unparseable,"),
        ("--until long", "is no point in time"),
    ):
        assert said in stderr_of("dlq", "list", *options.split(), code=2)


TODAY = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def shown(shop: Shop) -> str:
    """The text of the only dead letter, each line with single blanks."""
    output = stdout_of("dlq", "show", shop.only_dead_letter().message_id)
    return "\n".join(" ".join(line.split()) for line in output.splitlines())


def test_message_is_shown_with_its_metadata(shop: Shop) -> None:
    error = PermanentError("no such counter")
    [sent] = shop.dead_letter(note("a", time=TODAY), error=error, receives=3, tenant="t-1")
    text = shown(shop)
    message = shop.only_dead_letter()
    for line in (
        f"message {message.message_id}",
        "consumer orders",
        f"reason permanent\n{explained_by('permanent')}",
        "error PermanentError: no such counter",
        "receives 3",
        f"lineage {sent}",
        "event noted, id id-a, source /test",
        f"event's time {TODAY}",
        f"dedup key {KEY}",
        f"SHA-256 {key_hash(KEY)}",
        "dedup record none",
        '"name": "a"',
    ):
        assert f"\n{line}\n" in f"\n{text}"
    assert "attributes {" in text
    assert '"t-1"' in text
    assert "if sent back ~ After the repair. It will be processed once its" in text
    assert "Fix the error first." in text


def test_beginning_of_several_ids_is_refused_with_the_ids(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "BATCH_ENTRIES", 1)  # each message is on a page of its own
    for _ in range(17):  # one more than there are first digits
        shop.cloud.bury("orders", "{")
    ids = [message.message_id for message in shop.dead_letters()]
    digit, number = Counter(one[0] for one in ids).most_common(1)[0]
    said = stderr_of("dlq", "show", digit)
    assert f"{number} dead letters begin with '{digit}'" in said
    assert next(one for one in ids if one[0] == digit) in said


def test_unknown_id_is_refused_with_the_command_that_lists_ids(shop: Shop) -> None:
    shop.dead_letter("{")
    for message_id in ("", "no-such-id"):
        said = stderr_of("dlq", "show", message_id)
        assert f"there is no dead letter '{message_id}'" in said
        assert "`once dlq list` shows" in said
    assert shop.hidden() == 0


# Reading a dead letter: the original message, and its attributes.


NOW = datetime(2026, 7, 30, 14, tzinfo=UTC)


def received(
    attributes: Mapping[str, Any], body: str = "{}", suffix: str = "", **system: str
) -> dead_letter.DeadLetter:
    """A dead letter of ReceiveMessage, with these message attributes and system attributes."""
    queue = dead_letter.DeadLetterQueue(
        "orders", f"https://sqs/1/dead{suffix}", f"https://sqs/1/queue{suffix}"
    )
    usual = {"SentTimestamp": "1700000000000", "ApproximateReceiveCount": "7"}
    message: Any = {
        "MessageId": "m-9",
        "ReceiptHandle": "r",
        "Body": body,
        "Attributes": usual | system,
        "MessageAttributes": attributes,
    }
    return dead_letter.DeadLetter.read(queue, message)


def quarantined(original: OriginalMessage) -> dead_letter.DeadLetter:
    body, attributes = carried(original, facts(reason="too-large", lineage="m-1"))
    return received(attributes, body)


def test_time_without_an_offset_is_in_utc() -> None:
    found = received(facts(first_seen="2023-07-30T14:00:00"))
    assert found.first_seen == datetime(2023, 7, 30, 14, tzinfo=UTC)


def test_every_consumer_has_a_dead_letter_queue_and_the_others_come_last(shop: Shop) -> None:
    found = dead_letter.dead_letter_queues(Deployment.find())
    assert [queue.owner for queue in found] == ["inventory", "orders", RELAY, UNROUTED]
    assert found[1] == shop.box
    assert found[-1].source_url is None
    assert dead_letter.dead_letter_queues(Deployment.find(), "orders") == [shop.box]
    assert dead_letter.dead_letter_queues(Deployment.find(), RELAY) == found[-2:-1]
    assert dead_letter.dead_letter_queues(Deployment.find(), UNROUTED) == found[-1:]


def test_compressed_message_is_ignored_if_the_body_is_there() -> None:
    packed = gzip.compress(json.dumps({"body": "no", "attributes": {}}).encode())
    hidden = {"DataType": "Binary", "BinaryValue": packed}
    assert received({DeadLetterAttribute.ORIGINAL_GZIP: hidden}, "{").original.body == "{"


def test_bomb_is_not_decompressed() -> None:
    most = dead_letter.MAX_DECOMPRESSED_BYTES
    body = b"x" * 20 * most
    packed = gzip.compress(b'{"attributes": {}, "body": "' + body + b'"}', compresslevel=1)
    tracemalloc.start()
    try:
        bomb = OriginalMessage("moved", {}, packed)
        assert dead_letter.decompressed(bomb) is bomb
        assert tracemalloc.get_traced_memory()[1] < 8 * most
    finally:
        tracemalloc.stop()


def test_attributes_too_large_as_json_are_redriven_in_the_form_they_were_sent() -> None:
    quotes = '"' * (Limits.MESSAGE_BYTES - 100)
    attributes = {"quotes": {"stringValue": quotes, "dataType": "String"}}
    found = quarantined(OriginalMessage("{", attributes))
    assert found.original.attributes == attributes
    back = redriven_message(found, NOW)
    assert dict(back.attributes) == {"quotes": text(quotes)}
    assert back.size <= Limits.MESSAGE_BYTES


def test_message_names_the_part_that_was_left_out() -> None:
    value = b64encode(Random(7).randbytes(Limits.MESSAGE_BYTES - 100)).decode()
    found = quarantined(OriginalMessage("{", {"a": {"binaryValue": value, "dataType": "Binary"}}))
    assert found.original == OriginalMessage("{", {})
    assert found.left_out == "attributes"
