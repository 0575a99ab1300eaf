"""One forged letter or record never stops a command, whatever it holds."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import Result

from once.names import Record
from tests.ops.hostile import OUT_OF_RANGE, Forged, Mess, items, letters, quick
from tests.ops.letters import Shop
from tests.ops.notes import KEY, note
from tests.ops.support import run

some = st.lists(letters, min_size=1, max_size=3)
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
@given(some, st.sampled_from(((), ("--json",), ("--key", "id-a"))))
def test_list_shows_any_letter(mess: Mess, found: Sequence[Forged], options: Sequence[str]) -> None:
    with mess.of(found):
        result = ended("dlq", "list", *options)
        if "--json" in options:
            assert len(json.loads(result.stdout)["letters"]) == len(found)
        assert mess.left() == len(found)


@quick
@given(letters, records)
@example(time_out_of_range, [])
def test_show_shows_any_letter(mess: Mess, letter: Forged, stored: Sequence[Any]) -> None:
    with mess.of([letter], stored) as [message_id]:
        ended("dlq", "show", message_id)
        assert mess.left() == 1


@quick
@given(some, records)
@example([time_out_of_range], [])
def test_dry_run_of_redrive_assesses_any_letter(
    mess: Mess, found: Sequence[Forged], stored: Sequence[Any]
) -> None:
    with mess.of(found, stored):
        ended("dlq", "redrive", "--dry-run")
        assert mess.left() == len(found)


@quick
@given(some, records, st.sampled_from(((), ("--unsafe",))))
@example([time_out_of_range], [], ())
def test_redrive_sends_any_letter_or_says_why_not(
    mess: Mess, shop: Shop, found: Sequence[Forged], stored: Sequence[Any], options: Sequence[str]
) -> None:
    own = [letter for letter in found if not letter.relay]
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
            assert f"{stayed} dead letters are still here" in result.stderr


@quick
@given(some)
def test_purge_exports_any_letter_and_import_puts_it_back(
    mess: Mess, tmp_path: Path, found: Sequence[Forged]
) -> None:
    file = tmp_path / f"{uuid4()}.jsonl"
    with mess.of(found) as ids:
        ended("dlq", "purge", "--yes", "--export", file)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert sorted(line["message_id"] for line in lines) == sorted(ids)
        assert mess.left() == 0
        ended("dlq", "import", file, "--unsafe")
        assert mess.left() == len(found)


@quick
@given(some, records, st.sampled_from((KEY, "id-a")), st.sampled_from(((), ("--json",))))
def test_trace_shows_any_letter_and_any_record(
    mess: Mess, found: Sequence[Forged], stored: Sequence[Any], key: str, options: Sequence[str]
) -> None:
    has_record = key == KEY and any(item["pk"]["S"] == KEY for item in stored)
    with mess.of(found, stored):
        ended("trace", key, "--no-logs", *options, codes=(0,) if has_record else (0, 1))
        assert mess.left() == len(found)


@quick
@given(st.lists(items.map(with_a_number), max_size=3))
def test_republish_counts_the_events_of_any_record(mess: Mess, stored: Sequence[Any]) -> None:
    with mess.of([], stored):
        ended("outbox", "republish", "--since", "2000-01-01", "--dry-run", codes=(0, 1))


@quick
@given(some)
def test_status_counts_any_letter(mess: Mess, found: Sequence[Forged]) -> None:
    with mess.of(found):
        found_rows = json.loads(ended("status", "--json", codes=(0, 4)).stdout)["queues"]
        assert sum(row["dead_letters"] for row in found_rows) == len(found)
