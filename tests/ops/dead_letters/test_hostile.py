"""Forged messages and records stop no command, and are shown as unreadable."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import boto3
import pytest
from typer.testing import Result

from once.events.cloud_event import read_event
from once.names import DeadLetterAttribute
from once.ops.dead_letters.dead_letter_text import NO_REASON
from once.ops.dead_letters.queue_walk import QueueWalk
from tests.ops.hostile import OUT_OF_RANGE, Forged, Mess, forged, records, with_attribute
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import facts, run, stderr_of, stdout_of, words

NO_MORE = ("--no-logs", "--no-dead-letters")


def ended(*arguments: object, codes: Sequence[int] = (0,)) -> Result:
    """Run a command that ends without an unexpected error or a control character in its output."""
    result = run(*arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in codes, result.output
    assert "unexpected" not in result.output
    assert all(c.isprintable() or c in "\n\t" for c in result.output)
    return result


def test_every_look_shows_any_message(mess: Mess) -> None:
    ids = mess.fill()
    ended("dlq", "list")
    listed = json.loads(ended("dlq", "list", "--json").stdout)["letters"]
    assert len(listed) == len(ids)
    ended("dlq", "list", "--key", "id-a")
    ended("dlq", "redrive", "--dry-run")
    for message_id in [*ids][::24]:
        ended("dlq", "show", message_id)
    queues = json.loads(ended("status", "--json", codes=(4,)).stdout)["queues"]
    assert sum(row["dead_letters"] for row in queues) == mess.left() == len(ids)


def test_every_look_shows_any_record(mess: Mess, shop: Shop) -> None:
    names = []
    for name, item in records():
        shop.aws.dynamodb.put_item(TableName="dedup", Item=item)
        mess.send((json.dumps(note(name)), {}))
        names.append(name)
    ended("dlq", "redrive", "--dry-run", "--limit", 1000)
    ended("effects", "list")
    ended("outbox", "republish", "--since", "2000-01-01", "--dry-run", codes=(0, 1))
    for name in names[::8]:
        for options in ((), ("--json",)):
            ended("trace", KEY.replace("id-a", f"id-{name}"), *NO_MORE, *options)


def test_redrive_sends_any_message_or_says_why_not(mess: Mess, shop: Shop) -> None:
    owners = mess.fill()
    redrive = ("dlq", "redrive", "--rate", 1000, "--yes", "--returning")
    said = ended(*redrive, codes=(1,)).stderr
    stayed = [message.message_id for message in shop.dead_letters()]
    assert f"{len(stayed)} dead letters stayed" in said
    shop.show_hidden()
    ended(*redrive[:-1], *stayed, "--unsafe")
    assert len(shop.waiting()) == Counter(owners.values())["orders"]


def test_purge_archives_any_message_and_import_puts_it_back(mess: Mess) -> None:
    ids = mess.fill()
    ended("dlq", "purge", "--yes", "--all", "--why", "tidy")
    assert mess.left() == 0
    ended("dlq", "import", "--yes", "20", "--unsafe")
    assert mess.left() == len(ids)


def forged_message(body: Any = None, /, **values: str) -> Forged:
    return json.dumps(body or note("a")), facts(**values)


def shown(message_id: str) -> str:
    return words(stdout_of("dlq", "show", message_id))


UNREADABLE = [
    *(
        (DeadLetterAttribute.FIRST_SEEN, text)
        for text in (*OUT_OF_RANGE, "yesterday", "\u0661", b"2026-07-30")
    ),
    (DeadLetterAttribute.KEY, "id-a"),
    (DeadLetterAttribute.LINEAGE, "m-1 \x85 2026-07-30"),
    (DeadLetterAttribute.LINEAGE, f"m-1 died {OUT_OF_RANGE[0]}"),
]


def test_only_messages_with_an_unreadable_attribute_stay(mess: Mess, shop: Shop) -> None:
    ids = {mess.send(with_attribute(*each)): each[0] for each in UNREADABLE}
    valid, _ = forged(id="another")
    mess.send((valid, {}))
    said = stderr_of("dlq", "redrive", "--rate", 1000, "--yes", "--returning")
    assert f"{len(UNREADABLE)} dead letters stayed" in said
    assert [message["Body"] for message in shop.waiting()] == [valid]
    for message_id, name in ids.items():
        assert message_id in said
        assert said.count(f"Needs a person. Its history cannot be read: {name}") == 1
        assert f"not-readable {name}" in shown(message_id)


def test_reason_that_is_no_code_is_unreadable_and_a_lineage_limited(mess: Mess, shop: Shop) -> None:
    lineage = ",".join(f"m-{number}" for number in range(10_000))
    mess.send(forged_message(reason="all is well\nmessage", lineage=lineage))
    found = shop.only_dead_letter()
    assert (found.reason, len(found.lineage)) == ("not-readable", 100)
    assert "all is well" not in stdout_of("dlq", "list")


def test_forged_reason_of_a_message_that_sqs_moved_is_ignored(mess: Mess, shop: Shop) -> None:
    claimed = {"reason": "permanent", "error": "Trust: me", "receive_count": "1", "consumer": "x"}
    mess.send(forged_message(**claimed), moved=True)
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


def test_error_in_reading_a_message_is_reported(
    mess: Mess, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(body: str, **options: Any) -> Any:
        if "id-a" in body:
            raise ZeroDivisionError
        return read_event(body, **options)

    monkeypatch.setattr("once.ops.dead_letters.assessment.read_event", read)
    mess.send(forged_message())
    mess.send(forged_message(note("b")))
    said = stderr_of("dlq", "redrive", "--rate", 1000, "--yes", "--returning")
    why = "Needs a person. It cannot be judged: unexpected, a fault of this command: ZeroDivision"
    assert why in said
    assert "1 dead letter stayed" in said
    assert [json.loads(message["Body"]) for message in shop.waiting()] == [note("b")]
    stdout_of("dlq", "list", "--json")
