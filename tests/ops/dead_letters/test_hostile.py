"""Forged messages and records stop no command, and are shown as unreadable."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import Result

from once.events.cloud_event import read_event
from once.names import DeadLetterAttribute, Record
from once.ops.dead_letters.dead_letter_text import NO_REASON
from once.ops.dead_letters.search import QueueWalk
from tests.ops.hostile import OUT_OF_RANGE, Forged, Mess, attribute, items, messages, quick
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import facts, run, stderr_of, stdout_of, words

some = st.lists(messages, min_size=1, max_size=3)
records = st.lists(items, max_size=2)
time_out_of_range = Forged(json.dumps({**note("a"), "time": OUT_OF_RANGE[0]}), {})


def ended(*arguments: object, codes: Sequence[int] = (0,)) -> Result:
    """Run a command that ends without an unexpected error or a control character in its output."""
    result = run(*arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in codes, result.output
    assert "unexpected" not in result.output
    assert all(c.isprintable() or c in "\n\t" for c in result.output)
    return result


def with_a_number(item: dict[str, Any]) -> dict[str, Any]:
    """AWS in memory fails if a filter compares a number with another type."""
    committed_at = item.get(Record.COMMITTED_AT, {})
    return {**item, Record.COMMITTED_AT: {"N": committed_at.get("N", "1")}}


@quick
@given(some, st.lists(items.map(with_a_number), max_size=2), st.sampled_from((KEY, "id-a")))
@example([time_out_of_range], [], KEY)
def test_every_look_shows_any_message_and_any_record(
    mess: Mess, found: Sequence[Forged], stored: Sequence[Any], key: str
) -> None:
    has_record = key == KEY and any(item["pk"]["S"] == KEY for item in stored)
    with mess.of(found, stored) as ids:
        ended("dlq", "list")
        listed = json.loads(ended("dlq", "list", "--json").stdout)["letters"]
        assert len(listed) == len(found)
        ended("dlq", "list", "--key", "id-a")
        ended("dlq", "show", ids[0])
        ended("dlq", "redrive", "--dry-run")
        queues = json.loads(ended("status", "--json", codes=(0, 4)).stdout)["queues"]
        assert sum(row["dead_letters"] for row in queues) == len(found)
        for options in ((), ("--json",)):
            ended("trace", key, "--no-logs", *options, codes=(0,) if has_record else (0, 1))
        ended("outbox", "republish", "--since", "2000-01-01", "--dry-run", codes=(0, 1))
        assert mess.left() == len(found)


@quick
@given(some, records, st.sampled_from(((), ("--unsafe",))))
@example([time_out_of_range], [], ())
def test_redrive_sends_any_message_or_says_why_not(
    mess: Mess, shop: Shop, found: Sequence[Forged], stored: Sequence[Any], options: Sequence[str]
) -> None:
    own = [message for message in found if not message.relay]
    with mess.of(found, stored) as ids:
        named = [name for name, one in zip(ids, found, strict=True) if not one.relay]
        chosen = (*named, *options) if options and named else ()
        result = ended(
            "dlq", "redrive", "--rate", 1000, "--yes", "--returning", *chosen, codes=(0, 1)
        )
        stayed = mess.left() - (len(found) - len(own))
        assert len(shop.waiting()) + stayed == len(own)
        assert result.exit_code == (1 if stayed else 0)
        assert not (chosen and stayed)
        if stayed:
            assert f"{stayed} dead letter{'s' if stayed > 1 else ''} stayed" in result.stderr


@quick
@given(some)
def test_purge_exports_any_message_and_import_puts_it_back(
    mess: Mess, tmp_path: Path, found: Sequence[Forged]
) -> None:
    file = tmp_path / f"{uuid4()}.jsonl"
    with mess.of(found) as ids:
        ended("dlq", "purge", "--yes", "--export", file)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert sorted(line["message_id"] for line in lines) == sorted(ids)
        assert mess.left() == 0
        ended("dlq", "import", "--yes", file, "--unsafe")
        assert mess.left() == len(found)


VALID = Forged(json.dumps(note("b")), {})


def forged_message(body: Any = None, /, *, moved: bool = False, **values: str) -> Forged:
    return Forged(json.dumps(body or note("a")), facts(**values), moved=moved)


def shown(message_id: str) -> str:
    return words(stdout_of("dlq", "show", message_id))


def redrive_leaves(mess: Mess, shop: Shop, forged: Forged, why: str) -> str:
    """Redrive a forged and a valid message, of which the first stays; return its id."""
    message_id = mess.send(forged)
    mess.send(VALID)
    said = stderr_of("dlq", "redrive", "--rate", 1000, "--yes", "--returning")
    assert why in said
    assert "1 dead letter stayed" in said
    assert [message["Body"] for message in shop.waiting()] == [VALID.body]
    return message_id


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (DeadLetterAttribute.FIRST_SEEN, text)
            for text in (*OUT_OF_RANGE, "yesterday", "\u0661")
        ),
        (DeadLetterAttribute.FIRST_SEEN, b"2026-07-30"),
        (DeadLetterAttribute.KEY, "id-a"),
        (DeadLetterAttribute.LINEAGE, "m-1 \x85 2026-07-30"),
        (DeadLetterAttribute.LINEAGE, f"m-1 died {OUT_OF_RANGE[0]}"),
    ],
)
def test_only_the_message_with_an_unreadable_attribute_stays(
    mess: Mess, shop: Shop, name: str, value: str | bytes
) -> None:
    forged = Forged(json.dumps(note("a")), {name: attribute(value)})
    left = redrive_leaves(mess, shop, forged, f"cannot be read: {name}")
    assert f"not-readable {name}" in shown(left)


def test_reason_that_is_no_code_is_shown_as_unreadable(mess: Mess, shop: Shop) -> None:
    mess.send(forged_message(reason="all is well\nmessage"))
    assert shop.only_dead_letter().reason == "not-readable"
    assert "all is well" not in stdout_of("dlq", "list")


def test_lineage_is_limited(mess: Mess, shop: Shop) -> None:
    mess.send(forged_message(lineage=",".join(f"m-{number}" for number in range(10_000))))
    assert len(shop.only_dead_letter().lineage) == 101
    stdout_of("dlq", "redrive", "--rate", 1000, "--yes", "--returning")


def test_forged_reason_of_a_message_that_sqs_moved_is_ignored(mess: Mess, shop: Shop) -> None:
    forged = {"reason": "permanent", "error": "Trust: me", "receive_count": "1", "consumer": "x"}
    mess.send(forged_message(moved=True, **forged))
    with QueueWalk(boto3.client("sqs"), [shop.box], limit=1) as walk:
        [[found]] = walk.pages()
    assert (found.reason, found.error, found.moved) == (None, None, True)
    assert found.receive_count == int(found.received["Attributes"]["ApproximateReceiveCount"])
    assert NO_REASON in words(stdout_of("dlq", "list"))
    text = shown(found.message_id)
    assert f"reason {NO_REASON}" in text
    assert "Trust: me" not in text.split("if sent back")[0]
    assert "Read the function's log first: it ended" in text
    [listed] = json.loads(stdout_of("dlq", "list", "--json"))["letters"]
    assert (listed["reason"], listed["error"]) == (None, None)
    assert '"letters": []' in stdout_of("dlq", "list", "--json", "--reason", "permanent")


def test_markup_emoji_and_line_breaks_of_a_message_are_escaped(mess: Mess, shop: Shop) -> None:
    loud = "[bold red]:smile:[/]\nFORGED\u202e\x1b"
    mess.send(
        forged_message({**note("a"), "type": loud, "id": loud}, reason="permanent", error=loud)
    )
    escaped = "[bold red]:smile:[/]\\nFORGED\\u202e\\x1b"
    assert escaped in shown(shop.only_dead_letter().message_id)
    assert escaped in stdout_of("dlq", "redrive", "--dry-run")
    assert (
        ":smile:" in stdout_of("dlq", "show", shop.only_dead_letter().message_id).partition("{")[2]
    )


def test_error_in_reading_a_message_is_reported_with_its_id(
    mess: Mess, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(body: str, **options: Any) -> Any:
        if "id-a" in body:
            raise ZeroDivisionError
        return read_event(body, **options)

    monkeypatch.setattr("once.ops.dead_letters.assessment.read_event", read)
    why = "Needs a person. It cannot be judged: unexpected, a fault of this command: ZeroDivision"
    redrive_leaves(mess, shop, forged_message(), why)
    stdout_of("dlq", "list", "--json")
