"""Forged dead letters are shown as unreadable, and do not stop the redrive of others."""

import json
from typing import Any

import boto3
import pytest

from once.events.cloud_event import read_event
from once.intake.original_message import OriginalMessage
from once.names import DeadLetter
from once.ops.dead_letters import redrive
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_text import NO_REASON
from once.ops.dead_letters.redrive import redriven_message
from once.ops.dead_letters.search import QueueWalk
from tests.ops.hostile import OUT_OF_RANGE, Forged, Mess, attribute
from tests.ops.letters import Shop
from tests.ops.notes import note
from tests.ops.output import stderr_of, stdout_of, words
from tests.ops.support import facts

VALID = Forged(json.dumps(note("b")), {})


def letter(body: Any = None, /, *, moved: bool = False, **values: str) -> Forged:
    return Forged(json.dumps(body or note("a")), facts(**values), moved=moved)


def shown(message_id: str) -> str:
    return words(stdout_of("dlq", "show", message_id))


def redrive_leaves(mess: Mess, shop: Shop, forged: Forged, why: str) -> str:
    """Redrive a forged and a valid letter, of which the first stays; return its id."""
    message_id = mess.send(forged)
    mess.send(VALID)
    said = stderr_of("dlq", "redrive", "--rate", 1000, "--yes", "--returning")
    assert why in said
    assert "1 dead letters are still here" in said
    assert [message["Body"] for message in shop.waiting()] == [VALID.body]
    return message_id


@pytest.mark.parametrize("time", OUT_OF_RANGE)
def test_only_the_letter_with_an_event_time_out_of_range_stays(
    mess: Mess, shop: Shop, time: str
) -> None:
    left = redrive_leaves(mess, shop, letter({**note("a"), "time": time}), "time")
    assert f"its producer's time '{time}' cannot be read" in shown(left)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((DeadLetter.FIRST_SEEN, text) for text in (*OUT_OF_RANGE, "yesterday", "\u0661")),
        (DeadLetter.FIRST_SEEN, b"2026-07-30"),
        (DeadLetter.KEY, "id-a"),
        (DeadLetter.LINEAGE, "m-1 \x85 2026-07-30"),
        (DeadLetter.LINEAGE, f"m-1 died {OUT_OF_RANGE[0]}"),
    ],
)
def test_only_the_letter_with_an_unreadable_attribute_stays(
    mess: Mess, shop: Shop, name: str, value: str | bytes
) -> None:
    forged = Forged(json.dumps(note("a")), {name: attribute(value)})
    left = redrive_leaves(mess, shop, forged, f"cannot be read: {name}")
    assert f"not-readable {name}" in shown(left)


def test_reason_that_is_no_code_is_shown_as_unreadable(mess: Mess, shop: Shop) -> None:
    mess.send(letter(reason="all is well\nmessage"))
    assert shop.letter().reason == "not-readable"
    assert "all is well" not in stdout_of("dlq", "list")


def test_first_receive_after_the_dead_lettering_is_ignored(mess: Mess, shop: Shop) -> None:
    mess.send(letter(first_seen="2999-01-01T00:00:00Z"))
    assert shop.letter().first_seen == shop.letter().sent_at


def test_lineage_is_limited(mess: Mess, shop: Shop) -> None:
    mess.send(letter(lineage=",".join(f"m-{number}" for number in range(10_000))))
    assert len(shop.letter().lineage) == 101
    stdout_of("dlq", "redrive", "--rate", 1000, "--yes", "--returning")


def test_forged_reason_of_a_letter_that_sqs_moved_is_ignored(mess: Mess, shop: Shop) -> None:
    forged = {"reason": "permanent", "error": "Trust: me", "receive_count": "1", "consumer": "x"}
    mess.send(letter(moved=True, **forged))
    with QueueWalk(boto3.client("sqs"), [shop.box], limit=1) as walk:
        [[found]] = walk.pages()
    assert (found.reason, found.error, found.moved) == (None, None, True)
    assert found.receive_count == int(found.received["Attributes"]["ApproximateReceiveCount"])
    assert NO_REASON in words(stdout_of("dlq", "list"))
    text = shown(found.message_id)
    assert f"reason {NO_REASON}" in text
    assert "Trust: me" not in text.split("if sent back")[0]
    assert "the function died on every receive" in text
    [listed] = json.loads(stdout_of("dlq", "list", "--json"))["letters"]
    assert (listed["reason"], listed["error"]) == (None, None)
    assert '"letters": []' in stdout_of("dlq", "list", "--json", "--reason", "permanent")


def test_markup_emoji_and_line_breaks_of_a_letter_are_escaped(mess: Mess, shop: Shop) -> None:
    loud = "[bold red]:smile:[/]\nFORGED\u202e\x1b"
    mess.send(letter({**note("a"), "type": loud, "id": loud}, reason="permanent", error=loud))
    escaped = "[bold red]:smile:[/]\\nFORGED\\u202e\\x1b"
    assert escaped in shown(shop.letter().message_id)
    assert escaped in stdout_of("dlq", "redrive", "--dry-run")
    assert ":smile:" in stdout_of("dlq", "show", shop.letter().message_id).partition("{")[2]


def test_error_in_reading_a_letter_is_reported_with_its_id(
    mess: Mess, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(body: str, **options: Any) -> Any:
        if "id-a" in body:
            raise ZeroDivisionError
        return read_event(body, **options)

    monkeypatch.setattr("once.ops.dead_letters.assessment.read_event", read)
    why = "NOT SAFE: unexpected, a fault of this command: ZeroDivision"
    redrive_leaves(mess, shop, letter(), why)
    stdout_of("dlq", "list", "--json")


def test_error_in_sending_a_letter_is_reported_with_its_id(
    mess: Mess, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(one: Letter, *arguments: Any, **options: Any) -> Any:
        if one.original == OriginalMessage(letter().body, {}):
            raise ZeroDivisionError
        return redriven_message(one, *arguments, **options)

    monkeypatch.setattr(redrive, "redriven_message", fail)
    redrive_leaves(mess, shop, letter(), "not sent: unexpected, a fault of this command")
