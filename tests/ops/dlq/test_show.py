"""`dlq show`: all that is known of one dead letter."""

import json
from collections import Counter
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from once.errors import PermanentError
from once.handlers.effect_declaration import Policy
from once.ops.dead_letters import queue_walk as walk
from once.ops.dlq._letter_text import body_text
from once.ops.terminal.formatting import escape_controls
from tests.ops.letters import Shop, note
from tests.ops.support import Cloud, answer_with, run

TODAY = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def shown(shop: Shop, *options: object) -> str:
    """What is shown of the only dead letter, each line with single blanks."""
    result = run("dlq", "show", shop.letter().message_id, *options)
    assert result.exit_code == 0, result.output
    return "\n".join(" ".join(line.split()) for line in result.stdout.splitlines())


def test_a_letter_is_shown_with_all_that_is_known(shop: Shop) -> None:
    sent = shop.send(note("a", time=TODAY), tenant="t-1")
    shop.outside.faults["a"] = PermanentError("no such counter")
    shop.work_off(receive_count=3)
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
        "dedup key orders#event#/test#id-a",
        f"SHA-256 {letter.key_hash}",
        "dedup record none",
    ):
        assert f"\n{line}\n" in f"\n{text}"
    assert "attributes {" in text
    assert '"t-1"' in text
    assert "if sent back safe: no record of it was found" in text
    assert "see to what the handler's error names" in text
    assert '\n"name": "a"\n' in text


def test_a_done_record_is_told_in_words(shop: Shop) -> None:
    shop.send(note("a"))
    shop.work_off()
    shop.give_up(note("a", data={"amount": 9}))
    text = shown(shop)
    assert "dedup record accepted, committed at 20" in text
    assert "remembered until 20" in text
    assert "if sent back safe, but comes back: as key-conflict" in text


def test_a_pending_record_is_told_with_where_to_look_at_the_provider(cloud: Cloud) -> None:
    with Shop(cloud, Policy.PROVIDER_KEY) as shop:
        shop.outside.answers = [TimeoutError()] * 3
        shop.give_up(note("a"))
        text = shown(shop)
        [key] = set(shop.outside.calls)
        assert "pending since 20" in text
        assert "effect 'charge': unknown: it may have been done" in text
        assert f"key at the provider: {key} (may be forgotten from 20" in text
        assert "lease until 20" in text


def test_a_message_that_sqs_moved_says_that_nobody_gave_a_reason(shop: Shop) -> None:
    shop.move(note("a"))
    text = shown(shop)
    assert "reason no reason recorded: the function died" in text
    assert "error" not in text.split("if sent back")[0]
    assert "at most: looks at it here count as well" in text


def test_a_body_that_is_no_json_is_shown_to_the_letter(shop: Shop) -> None:
    shop.give_up('{"id": 1, "id": 2}')
    assert shown(shop).endswith('\n\n{"id": 1, "id": 2}')


def test_what_a_terminal_could_obey_is_shown_as_an_escape(shop: Shop) -> None:
    shop.send("\x85[31m{\u202e [bold]")
    shop.work_off()
    text = shown(shop)
    assert "\\x85[31m{\\u202e [bold]" in text
    assert escape_controls("a\x1b[0m\tb\n\x07é") == "a\\x1b[0m\tb\n\\x07é"


def test_the_beginning_of_an_id_is_enough(shop: Shop) -> None:
    shop.give_up("{")
    letter = shop.letter()
    result = run("dlq", "show", letter.message_id[:8])
    assert letter.message_id in result.stdout
    assert shop.hidden() == 0


def test_a_beginning_that_several_share_is_refused_with_their_ids(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "BATCH_ENTRIES", 1)  # whatever is on the first page is not all
    for _ in range(17):  # one more than there are first digits
        shop.sqs.send_message(QueueUrl=shop.box.url, MessageBody="{")
    ids = [letter.message_id for letter in shop.letters()]
    digit, number = Counter(one[0] for one in ids).most_common(1)[0]
    result = run("dlq", "show", digit)
    assert result.exit_code == 1
    assert f"{number} dead letters begin with '{digit}'" in result.stderr
    assert next(one for one in ids if one[0] == digit) in result.stderr


def test_a_blank_id_names_nothing(shop: Shop) -> None:
    shop.give_up("{")
    assert "there is no dead letter ''" in run("dlq", "show", "").stderr


def test_a_letter_that_is_not_there_says_where_to_look(shop: Shop) -> None:
    shop.give_up("{")
    result = run("dlq", "show", uuid4())
    assert result.exit_code == 1
    assert "`once dlq list` shows" in result.stderr
    assert shop.hidden() == 0


def test_no_more_is_looked_at_once_a_whole_id_was_found(shop: Shop) -> None:
    shop.give_up("{")
    letter = shop.letter()
    asked: list[object] = []
    answer_with("sqs.ReceiveMessage", lambda params: asked.append(params))
    run("dlq", "show", letter.message_id, "--consumer", "orders")
    assert len(asked) == 1


def test_json_is_shown_as_it_is_meant(shop: Shop) -> None:
    shop.give_up(json.dumps({"é": [1.50, {"b": None}]}))
    assert json.loads(body_text(shop.letter())) == {"é": [1.5, {"b": None}]}
    assert '"é"' in body_text(shop.letter())
