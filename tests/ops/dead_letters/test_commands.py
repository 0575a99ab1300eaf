"""`dlq list` and `dlq show`: groups, filters, and one message with its record and its verdict."""

import json
import shlex
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from once.errors import PermanentError
from once.events.identity import key_hash
from once.names import RELAY, page_url
from once.ops.aws import clients
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import rows, stderr_of, stdout_of

DIED = "no reason recorded: the function died"
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
    assert [row[:3] for row in rows(output) if row[0]] == [
        ["orders", DIED, "1"],
        ["orders", FAILED, "2"],
        ["orders", UNREAD, "1"],
        [RELAY, "unpublishable", "1"],
    ]
    errors = [row[1].partition(":")[0] for row in rows(output) if not row[0] and row[1]]
    assert errors == ["no error recorded", "Unexpected", "Unparseable", "no error recorded"]
    assert "looked at 5 of about 5 dead letters" in output
    assert "looked at 2 of about 5 dead letters" in stdout_of("dlq", "list", "--limit", 2)
    assert "\x1b" not in output
    shown = {message_id for *_, ids in rows(output)[:-2] for message_id in ids.split()}
    assert shown == {message.message_id[:8] for message in mixed.dead_letters()}


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
        f"reason permanent\n{page_url('reasons/permanent')}",
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
    assert "if sent back ✓ Safe. It will be processed." in text
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
