"""`dlq list`: which dead letters there are, and why, without losing or showing any of them."""

import json
from typing import Any

import pytest

from once.schema import RELAY
from tests.ops.letters import Shop, note
from tests.ops.support import Cloud, run

DIED = "no reason recorded: the function died"


@pytest.fixture
def mixed(shop: Shop) -> Shop:
    """Two that failed, one that cannot be read, one that SQS has moved; one of the relay."""
    shop.give_up(note("a"), note("b"), error=ValueError("boom"))
    shop.give_up("{")
    shop.move(note("c", "named"))
    relay = shop.cloud.outputs["once-service"]["RelayDeadLetters"]
    shop.sqs.send_message(
        QueueUrl=relay,
        MessageBody="x",
        MessageAttributes={"once-reason": {"DataType": "String", "StringValue": "unpublishable"}},
    )
    return shop


def rows(output: str) -> list[list[str]]:
    lines = [line for line in output.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def listed(*options: object) -> Any:
    result = run("dlq", "list", "--json", *options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def reasons(*options: object) -> list[str | None]:
    return sorted((found["reason"] for found in listed(*options)["letters"]), key=str)


def test_letters_are_grouped_by_consumer_reason_and_age(mixed: Shop) -> None:
    result = run("dlq", "list")
    assert result.exit_code == 0
    assert [row[:4] for row in rows(result.stdout) if row[0]] == [
        ["orders", DIED, "under 1 h", "1"],
        ["orders", "retries-exhausted", "under 1 h", "2"],
        ["orders", "unparseable", "under 1 h", "1"],
        [RELAY, "unpublishable", "under 1 h", "1"],
    ]
    assert "looked at 5 of about 5 dead letters" in result.stdout
    assert "\x1b" not in result.stdout


def test_rows_name_letters_by_the_beginning_of_their_ids(mixed: Shop) -> None:
    ids = {letter.message_id[:8] for letter in mixed.letters()}
    named = [row[5].split() for row in rows(run("dlq", "list", "--consumer", "orders").stdout)]
    assert {one for some in named for one in some} == ids


def test_many_of_a_group_are_named_in_part(shop: Shop) -> None:
    shop.give_up(*(note(str(n)) for n in range(5)), error=ValueError())
    first, *more = rows(run("dlq", "list").stdout)
    assert first[3] == "5"
    assert len(more) == 3
    assert more[-1] == ["", "", "", "", "", "…"]


def test_no_reason_is_cut_off_where_there_is_little_room(
    mixed: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = run("dlq", "list").stdout
    reasons = " ".join(row[1] for row in rows(output))
    assert reasons.split() == f"{DIED} retries-exhausted unparseable unpublishable".split()
    assert {len(line) for line in output.splitlines()[:-1]} <= {*range(81)}


def test_json_says_what_is_known_of_every_letter_but_bodies_and_what_quotes_them(
    mixed: Shop,
) -> None:
    result = run("dlq", "list", "--json")
    found = json.loads(result.stdout)
    assert (found["looked_at"], found["approximate_number"]) == (5, 5)
    letters = {letter["message_id"]: letter for letter in found["letters"]}
    for letter in mixed.letters():
        shown = letters[letter.message_id]
        assert shown["consumer"] == "orders"
        assert shown["reason"] == letter.reason
        assert shown["key_hash"] == letter.key_hash
        assert shown["lineage"] == [stay.message_id for stay in letter.lineage]
        assert shown["first_seen"] == letter.first_seen.isoformat()
        assert shown["dead_lettered"] == letter.sent_at.isoformat()
        assert shown["receive_count"] == (1 if letter.moved else 5)
    assert {letter["error"] for letter in letters.values()} == {"Unexpected", "Unparseable", None}
    for secret in ("boom", "id-a", "specversion"):
        assert secret not in result.stdout


def test_looking_changes_nothing(mixed: Shop) -> None:
    before = mixed.letters()
    run("dlq", "list")
    assert mixed.hidden() == 0
    assert [letter.original for letter in mixed.letters()] == [one.original for one in before]


def test_nothing_is_said_to_be_nothing(shop: Shop) -> None:
    result = run("dlq", "list")
    assert result.stdout.splitlines() == ["no dead letters", "looked at 0 of about 0 dead letters"]
    assert listed()["letters"] == []


def test_a_limit_is_told_against_the_number_there_is(mixed: Shop) -> None:
    assert "looked at 2 of about 5 dead letters" in run("dlq", "list", "--limit", 2).stdout


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--consumer", "orders", "--reason", "unparseable"), ["unparseable"]),
        (("--reason", "died"), [None]),
        (("--consumer", "inventory"), []),
        (("--consumer", RELAY), ["unpublishable"]),
        (("--key", "id-a"), ["retries-exhausted"]),
        (("--key", "orders#event#/test#id-"), [None, "retries-exhausted", "retries-exhausted"]),
        (("--key", "field#named#name#str:c"), [None]),
        (("--key", "field#noted#name#str:a"), []),
        (("--key", "id"), [None, "retries-exhausted", "retries-exhausted"]),
        (("--older-than", "1m"), []),
        (("--younger-than", "1m", "--reason", "unparseable"), ["unparseable"]),
        (("--older-than", "2099-01-01", "--reason", "unparseable"), ["unparseable"]),
        (("--younger-than", "2099-01-01"), []),
    ],
)
def test_filters_choose(mixed: Shop, options: tuple[str, ...], found: list[str | None]) -> None:
    assert reasons(*options) == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--reason", "bad-luck"), "give one of unparseable,"),
        (("--older-than", "long"), "is no point in time"),
        (("--limit", "0"), "greater than or equal to 1"),
    ],
)
def test_filters_that_cannot_be_are_refused(
    cloud: Cloud, options: tuple[str, ...], said: str
) -> None:
    result = run("dlq", "list", *options)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_an_unknown_consumer_is_answered_with_those_there_are(cloud: Cloud) -> None:
    result = run("dlq", "list", "--consumer", "refunds")
    assert result.exit_code == 1
    assert "choose one of inventory, orders" in result.stderr
