"""`dlq import` leaves out what may be there already or may be processed twice, and says so."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from once.ops.dead_letters.export import safe_until
from once.ops.dead_letters.search import QueueWalk
from once.ops.errors import ExitCode
from tests.ops.exports import FILE, import_, lines
from tests.ops.letters import Shop
from tests.ops.notes import note
from tests.ops.output import stderr_of, stdout_of, words
from tests.ops.support import run


def test_nothing_is_imported_while_another_command_hides_letters(purged: Shop) -> None:
    purged.fail("c")
    with QueueWalk(purged.sqs, [purged.box], limit=2) as walk:
        assert [*walk.pages()]
        result = run("dlq", "import", FILE)
    assert result.exit_code == ExitCode.HIDDEN
    assert "nothing was imported: it may be there already" in words(result.stderr)
    assert len(purged.letters()) == 1


def test_nothing_is_imported_if_not_every_letter_there_was_seen(purged: Shop) -> None:
    purged.fail("c", "d")
    assert "raise --limit" in stderr_of("dlq", "import", FILE, "--limit", 1)
    assert len(purged.letters()) == 2


@pytest.mark.parametrize(
    "line", ["no JSON", "{}", '{"consumer": "orders", "message_id": 1}', "customer-7"]
)
def test_file_that_is_no_export_is_refused_with_the_line_and_without_its_text(
    purged: Shop, line: str
) -> None:
    with Path(FILE).open("a") as file:
        file.write(f"{line}\n")
    said = stderr_of("dlq", "import", FILE)
    assert f"line 3 of {FILE}: it is no" in said
    assert "nothing was imported" in said
    assert "customer-7" not in said
    assert purged.letters() == []


def expire(seconds: float | None) -> None:
    """Let the letters of the export be safe for so long from now; None stands for not known."""
    until = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
    changed = [{**line, "safe_until": until and until.isoformat()} for line in lines()]
    Path(FILE).write_text("".join(json.dumps(line) + "\n" for line in changed))


@pytest.mark.parametrize(("seconds", "refused"), [(60, False), (-1, True), (None, True)])
def test_letter_past_its_time_is_imported_with_unsafe_only(
    purged: Shop, seconds: float | None, *, refused: bool
) -> None:
    expire(seconds)
    if refused:
        assert "2 past their safe_until: their keys may be" in stderr_of("dlq", "import", FILE)
        assert purged.letters() == []
    assert import_("--unsafe" if refused else "--again")["imported"] == "2"


@pytest.mark.parametrize("made", [None, datetime.now(UTC) - timedelta(days=20)])
def test_safe_until_is_the_time_from_which_a_redrive_is_refused(
    shop: Shop, made: datetime | None
) -> None:
    event = note("a") | ({"time": made.isoformat()} if made else {})
    shop.dead_letter(event, error=ValueError("boom"))
    until = safe_until(shop.letter())
    assert until is not None
    left = (until - datetime.now(UTC)).total_seconds()
    assert shop.verdict(in_seconds=left - 5).safe
    assert not shop.verdict(in_seconds=left + 5).safe


def test_safe_until_is_not_known_without_the_producers_time(shop: Shop) -> None:
    shop.dead_letter(note("a") | {"time": "yesterday"}, error=ValueError("boom"))
    assert safe_until(shop.letter()) is None


def test_journal_that_cannot_be_written_stops_the_import(purged: Shop) -> None:
    Path(f"{FILE}.imported").mkdir()
    assert "cannot be read" in stderr_of("dlq", "import", FILE)
    assert purged.letters() == []


def test_letters_of_a_renamed_consumer_are_imported_into_a_named_queue(purged: Shop) -> None:
    Path(FILE).write_text(Path(FILE).read_text().replace('"orders"', '"gone"'))
    assert "no consumer 'gone'" in stderr_of("dlq", "import", FILE)
    assert import_("--into", "orders")["imported"] == "2"
    assert len(purged.letters()) == 2


def test_json_names_the_letters_by_their_ids_in_the_export(purged: Shop) -> None:
    ids = [line["message_id"] for line in lines()]
    stdout_of("dlq", "import", FILE)
    result = run("dlq", "import", FILE, "--json")
    assert json.loads(result.stdout) == {
        "dry_run": False,
        "imported": 0,
        "there_already": ids,
        "imported_before": [],
        "past_safe_until": [],
        "failed": {},
    }
