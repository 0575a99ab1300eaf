"""`dlq show`: one dead letter with its dedup record and its verdict."""

from collections import Counter
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from once.effects.declaration import Policy
from once.errors import PermanentError
from once.events.identity import key_hash
from once.ops.dead_letters import search as walk
from once.ops.terminal import escape_controls
from tests.ops.cloud import Cloud
from tests.ops.letters import Shop
from tests.ops.notes import KEY, note
from tests.ops.output import stderr_of, stdout_of
from tests.ops.support import requests_of

TODAY = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def shown(shop: Shop) -> str:
    """The text of the only dead letter, each line with single blanks."""
    output = stdout_of("dlq", "show", shop.letter().message_id)
    return "\n".join(" ".join(line.split()) for line in output.splitlines())


def test_letter_is_shown_with_its_metadata(shop: Shop) -> None:
    error = PermanentError("no such counter")
    [sent] = shop.dead_letter(note("a", time=TODAY), error=error, receives=3, tenant="t-1")
    text = shown(shop)
    letter = shop.letter()
    for line in (
        f"message {letter.message_id}",
        "consumer orders",
        "reason permanent",
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
    assert "if sent back safe: no record of it was found" in text
    assert "see to what the handler's error names" in text


def test_long_values_are_complete_on_a_narrow_terminal(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "x" * 300
    shop.dead_letter(note("a", event_id=long), error=PermanentError("no"), tenant=long)
    monkeypatch.setenv("COLUMNS", "40")
    lines = stdout_of("dlq", "show", shop.letter().message_id).splitlines()
    key = f"orders#event#/test#{long}"
    for value in (key, f"SHA-256 {key_hash(key)}"):
        assert any(line.endswith(value) for line in lines), value
    assert any(f'"stringValue": "{long}"' in line for line in lines)
    assert not any("…" in line for line in lines)


def test_committed_record_is_described(shop: Shop) -> None:
    shop.process(note("a"))
    shop.dead_letter(note("a", data={"amount": 9}))
    text = shown(shop)
    assert "dedup record accepted, committed at 20" in text
    assert "remembered until 20" in text
    assert "if sent back safe, but comes back: as key-conflict" in text


def test_pending_record_is_described_with_its_key_at_the_provider(cloud: Cloud) -> None:
    with Shop(cloud, Policy.PROVIDER_KEY) as shop:
        shop.outside.answers = [TimeoutError()] * 3
        shop.dead_letter(note("a"))
        text = shown(shop)
        [key] = set(shop.outside.calls)
    assert "pending since 20" in text
    assert "effect 'charge': unknown: it may have been done" in text
    assert f"key at the provider: {key} (may be forgotten from 20" in text
    assert "lease until 20" in text


def test_letter_moved_by_sqs_is_shown_without_a_reason(shop: Shop) -> None:
    shop.move(note("a"))
    text = shown(shop)
    assert "reason no reason recorded: the function died" in text
    assert "error" not in text.split("if sent back")[0]
    assert "at most: looks at it here count as well" in text


def test_invalid_json_is_shown_unchanged(shop: Shop) -> None:
    shop.dead_letter('{"id": 1, "id": 2}')
    assert shown(shop).endswith('\n\n{"id": 1, "id": 2}')


def test_control_characters_are_escaped(shop: Shop) -> None:
    shop.process("\x85[31m{\u202e [bold]")
    assert "\\x85[31m{\\u202e [bold]" in shown(shop)
    assert escape_controls("a\x1b[0m\tb\n\x07é") == "a\\x1b[0m\tb\n\\x07é"


def test_beginning_of_several_ids_is_refused_with_the_ids(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "BATCH_ENTRIES", 1)  # each letter is on a page of its own
    for _ in range(17):  # one more than there are first digits
        shop.cloud.bury("orders", "{")
    ids = [letter.message_id for letter in shop.letters()]
    digit, number = Counter(one[0] for one in ids).most_common(1)[0]
    said = stderr_of("dlq", "show", digit)
    assert f"{number} dead letters begin with '{digit}'" in said
    assert next(one for one in ids if one[0] == digit) in said


@pytest.mark.parametrize("message_id", ["", uuid4()])
def test_unknown_id_is_refused_with_the_command_that_lists_ids(
    shop: Shop, message_id: object
) -> None:
    shop.dead_letter("{")
    said = stderr_of("dlq", "show", message_id)
    assert f"there is no dead letter '{message_id}'" in said
    assert "`once dlq list` shows" in said
    assert shop.hidden() == 0


def test_no_more_letters_are_received_after_a_whole_id_was_found(shop: Shop) -> None:
    shop.dead_letter("{")
    letter = shop.letter()
    asked = requests_of("sqs.ReceiveMessage")
    stdout_of("dlq", "show", letter.message_id, "--consumer", "orders")
    assert len(asked) == 1
