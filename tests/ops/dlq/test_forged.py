"""Dead letters that hold what no consumer wrote: told as such, and in the way of no other."""

import json
from typing import Any

import boto3
import pytest

from once.events.cloud_event import read_event
from once.intake.original_message import OriginalMessage
from once.ops.dead_letters import redrive
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dead_letters.redriven_message import redriven_message
from once.ops.dlq._letter_text import NO_REASON
from once.schema import DeadLetter
from tests.ops.hostile import Forged, attribute
from tests.ops.letters import Shop, note
from tests.ops.mess import Mess
from tests.ops.support import run

BEYOND = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59")
"""Points in time that no calendar holds in UTC."""

SOUND = Forged(json.dumps(note("b")), {})


@pytest.fixture
def mess(shop: Shop) -> Mess:
    return Mess(shop)


def letter(body: Any = None, /, *, moved: bool = False, **facts: str) -> Forged:
    attributes = {f"once-{name.replace('_', '-')}": value for name, value in facts.items()}
    return Forged(
        json.dumps(body or note("a")),
        {name: attribute(value) for name, value in attributes.items()},
        moved=moved,
    )


def shown(message_id: str) -> str:
    result = run("dlq", "show", message_id)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def goes_around(mess: Mess, shop: Shop, hostile: Forged, why: str) -> str:
    """Send two letters back, of which the first stays; return its id."""
    mess.send(hostile, SOUND)
    first = min(shop.letters(), key=lambda one: one.original.body != hostile.body).message_id
    result = run("dlq", "redrive", "--rate", 1000)
    assert result.exit_code == 1
    assert why in result.stderr
    assert "1 dead letters are still here" in result.stderr
    assert [message["Body"] for message in shop.waiting()] == [SOUND.body]
    return first


@pytest.mark.parametrize("time", BEYOND)
def test_an_events_time_that_no_calendar_holds_stays_behind_alone(
    mess: Mess, shop: Shop, time: str
) -> None:
    left = goes_around(mess, shop, letter({**note("a"), "time": time}), "time")
    assert f"its producer's time '{time}' cannot be read" in shown(left)


@pytest.mark.parametrize("first_seen", [*BEYOND, "yesterday", "\u0661"])
def test_a_forged_first_seen_stays_behind_alone(mess: Mess, shop: Shop, first_seen: str) -> None:
    left = goes_around(mess, shop, letter(first_seen=first_seen), "cannot be read: once-first-seen")
    assert "not-readable once-first-seen" in shown(left)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (DeadLetter.KEY_HASH, "A" * 64),
        (DeadLetter.LINEAGE, "m-1 \x85 2026-07-30"),
        (DeadLetter.LINEAGE, "m-1 died 0001-01-01T00:00:00+23:59"),
    ],
)
def test_other_forged_attributes_stay_behind_alone(
    mess: Mess, shop: Shop, name: str, value: str
) -> None:
    hostile = Forged(json.dumps(note("a")), {name: attribute(value)})
    goes_around(mess, shop, hostile, f"cannot be read: {name}")


def test_attributes_of_bytes_are_no_texts(mess: Mess, shop: Shop) -> None:
    hostile = Forged(json.dumps(note("a")), {DeadLetter.FIRST_SEEN: attribute(b"2026-07-30")})
    goes_around(mess, shop, hostile, f"cannot be read: {DeadLetter.FIRST_SEEN}")


def test_a_reason_that_is_no_code_is_not_shown_as_one(mess: Mess, shop: Shop) -> None:
    mess.send(letter(reason="all is well\nmessage"))
    assert shop.letter().reason == "not-readable"
    assert "all is well" not in run("dlq", "list").output


def test_a_first_receive_after_the_letter_was_sent_is_not_believed(mess: Mess, shop: Shop) -> None:
    mess.send(letter(first_seen="2999-01-01T00:00:00Z"))
    assert shop.letter().first_seen == shop.letter().sent_at


def test_a_lineage_does_not_outgrow_its_message(mess: Mess, shop: Shop) -> None:
    mess.send(letter(lineage=",".join(f"m-{number}" for number in range(10_000))))
    assert len(shop.letter().lineage) == 101
    assert run("dlq", "redrive", "--rate", 1000).exit_code == 0


def test_of_a_letter_that_sqs_moved_no_forged_reason_is_believed(mess: Mess, shop: Shop) -> None:
    mess.send(
        letter(moved=True, reason="permanent", error="Trust: me", receive_count="1", consumer="x")
    )
    with QueueWalk(boto3.client("sqs"), [shop.box], limit=1) as walk:
        [[found]] = walk.pages()
    assert (found.reason, found.error, found.moved) == (None, None, True)
    assert found.receive_count == found.receives
    assert NO_REASON in " ".join(run("dlq", "list").stdout.replace("│", " ").split())
    text = shown(found.message_id)
    assert f"reason {NO_REASON}" in text
    assert "Trust: me" not in text.split("if sent back")[0]
    assert "the function died on every receive" in text
    [told] = json.loads(run("dlq", "list", "--json").stdout)["letters"]
    assert (told["reason"], told["error"]) == (None, None)
    assert json.loads(run("dlq", "list", "--json", "--reason", "permanent").stdout)["letters"] == []


def test_nothing_of_a_letter_is_read_as_markup_emoji_or_a_line_of_its_own(
    mess: Mess, shop: Shop
) -> None:
    loud = "[bold red]:smile:[/]\nFORGED\u202e\x1b"
    mess.send(letter({**note("a"), "type": loud, "id": loud}, reason="permanent", error=loud))
    escaped = "[bold red]:smile:[/]\\nFORGED\\u202e\\x1b"
    assert escaped in shown(shop.letter().message_id)
    assert escaped in run("dlq", "redrive", "--dry-run").stdout
    assert ":smile:" in run("dlq", "show", shop.letter().message_id).stdout.partition("{")[2]


def test_an_error_of_the_command_itself_is_told_of_its_letter(
    mess: Mess, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(body: str, **_: Any) -> Any:
        if "id-a" in body:
            raise ZeroDivisionError
        return read_event(body, **_)

    monkeypatch.setattr("once.ops.dead_letters.letter_context.read_event", read)
    goes_around(mess, shop, letter(), "NOT SAFE: unexpected, a fault of this command: ZeroDivision")
    assert run("dlq", "list", "--json").exit_code == 0


def test_an_error_in_sending_a_letter_is_told_of_it(
    mess: Mess, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(one: Letter, *arguments: Any, **options: Any) -> Any:
        if one.original == OriginalMessage(letter().body, {}):
            raise ZeroDivisionError
        return redriven_message(one, *arguments, **options)

    monkeypatch.setattr(redrive, "redriven_message", fail)
    goes_around(mess, shop, letter(), "not sent: unexpected, a fault of this command")
