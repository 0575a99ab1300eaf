"""`dlq list`: groups of dead letters, and filters. The letters stay in their queues."""

import json
import shlex
from typing import Any

import pytest

from once.events.identity import key_hash
from once.names import RELAY
from tests.ops.cloud import Cloud
from tests.ops.letters import Shop
from tests.ops.notes import KEY, note
from tests.ops.output import rows, stderr_of, stdout_of

DIED = "no reason recorded: the function died"
FAILED, UNREAD = "retries-exhausted", "unparseable"


@pytest.fixture
def mixed(shop: Shop) -> Shop:
    """Two letters that failed, one unparseable, one moved by SQS, and one of the relay."""
    shop.fail("a", "b")
    shop.dead_letter("{")
    shop.move(note("c", "named"))
    shop.cloud.bury(RELAY, reason="unpublishable")
    return shop


def listed(*options: object) -> Any:
    return json.loads(stdout_of("dlq", "list", "--json", *options))


def test_letters_are_grouped_by_consumer_reason_and_age(mixed: Shop) -> None:
    output = stdout_of("dlq", "list")
    assert [row[:4] for row in rows(output) if row[0]] == [
        ["orders", DIED, "under 1 h", "1"],
        ["orders", FAILED, "under 1 h", "2"],
        ["orders", UNREAD, "under 1 h", "1"],
        [RELAY, "unpublishable", "under 1 h", "1"],
    ]
    assert "looked at 5 of about 5 dead letters" in output
    assert "looked at 2 of about 5 dead letters" in stdout_of("dlq", "list", "--limit", 2)
    assert "\x1b" not in output
    shown = {message_id for *_, ids in rows(output)[:-1] for message_id in ids.split()}
    assert shown == {letter.message_id[:8] for letter in mixed.letters()}


def test_large_group_shows_some_of_its_ids(shop: Shop) -> None:
    shop.fail(*"01234")
    first, *more = rows(stdout_of("dlq", "list"))
    assert first[3] == "5"
    assert len(more) == 3
    assert more[-1] == ["", "", "", "", "", "…"]


def test_reasons_are_complete_on_a_narrow_terminal(
    mixed: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = stdout_of("dlq", "list")
    reasons = " ".join(row[1] for row in rows(output))
    assert reasons.split() == f"{DIED} {FAILED} {UNREAD} unpublishable".split()
    assert {len(line) for line in output.splitlines()[:-1]} <= {*range(81)}


def test_json_has_metadata_without_bodies_or_texts_that_may_quote_them(mixed: Shop) -> None:
    before = mixed.letters()
    output = stdout_of("dlq", "list", "--json")
    assert mixed.hidden() == 0
    found = json.loads(output)
    assert (found["looked_at"], found["approximate_number"]) == (5, 5)
    letters = {letter["message_id"]: letter for letter in found["letters"]}
    for letter in before:
        shown = letters[letter.message_id]
        assert shown["consumer"] == "orders"
        assert shown["reason"] == letter.reason
        assert shown["key_hash"] == (letter.key and key_hash(letter.key))
        assert shown["lineage"] == [stay.message_id for stay in letter.lineage]
        assert shown["first_seen"] == letter.first_seen.isoformat()
        assert shown["dead_lettered"] == letter.sent_at.isoformat()
        # SQS counts each look as a receive.
        assert shown["receive_count"] == (letter.receive_count + 1 if letter.moved else 5)
    assert {letter["error"] for letter in letters.values()} == {"Unexpected", "Unparseable", None}
    for secret in ("boom", "id-a", "specversion"):
        assert secret not in output
    assert [letter.original for letter in mixed.letters()] == [one.original for one in before]


def test_empty_queues_are_reported(shop: Shop) -> None:
    output = stdout_of("dlq", "list")
    assert output.splitlines() == ["no dead letters", "looked at 0 of about 0 dead letters"]
    assert listed()["letters"] == []


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (f"--consumer orders --reason {UNREAD}", [UNREAD]),
        ("--reason died", [None]),
        ("--consumer inventory", []),
        (f"--consumer {RELAY}", ["unpublishable"]),
        ("--error 'Unexpected: ValueError at meet:7: boom'", [FAILED, FAILED]),
        ("--error boom", []),
        ("--key id-a", [FAILED]),
        (f"--key {KEY[:-1]}", [FAILED, FAILED]),
        ("--key field#named#name#str:c", [None]),
        ("--key field#noted#name#str:a", []),
        ("--key id", [FAILED, FAILED]),
        ("--older-than 1m", []),
        (f"--younger-than 1m --reason {UNREAD}", [UNREAD]),
        (f"--older-than 2099-01-01 --reason {UNREAD}", [UNREAD]),
        ("--younger-than 2099-01-01", []),
    ],
)
def test_filters_select_letters(mixed: Shop, options: str, found: list[str | None]) -> None:
    letters = listed(*shlex.split(options))["letters"]
    assert sorted((letter["reason"] for letter in letters), key=str) == found


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--reason bad-luck", 2, "give one of unparseable,"),
        ("--older-than long", 2, "is no point in time"),
        ("--limit 0", 2, "greater than or equal to 1"),
        ("--consumer refunds", 1, "choose one of inventory, orders"),
    ],
)
def test_invalid_filter_is_refused(cloud: Cloud, options: str, code: int, said: str) -> None:
    assert said in stderr_of("dlq", "list", *options.split(), code=code)
