"""Architecture decision records: sections, index, and superseded records."""

import re
from pathlib import Path

import pytest

from tests.architecture.imports import ROOT

ADR = ROOT / "docs" / "adr"
RECORDS = sorted(ADR.glob("[0-9]*.md"))
SECTIONS = ["Context", "Decision", "Alternatives", "Consequences"]
STATUS = re.compile(r"^Status: (?:accepted|superseded by \[(\d{4})\])", re.MULTILINE)
SUPERSEDES = re.compile(r"^Status: accepted\. Supersedes \[(\d{4})\]", re.MULTILINE)
INDEX_ROW = re.compile(
    r"^\| \[(\d{4})\]\((.+?)\) \| (.+?) \| (?:accepted|superseded by (\d{4})) \|$", re.MULTILINE
)


def number(record: Path) -> str:
    return record.name[:4]


def superseded_by(record: Path) -> str:
    found = STATUS.search(record.read_text())
    assert found, f"{record.name} has no status"
    return found[1] or ""


def title(record: Path) -> str:
    return record.read_text().splitlines()[0].removeprefix(f"# {number(record)}: ")


def test_no_number_is_used_twice() -> None:
    assert len({number(record) for record in RECORDS}) == len(RECORDS)


@pytest.mark.parametrize("record", RECORDS, ids=number)
def test_a_record_has_a_title_and_four_sections(record: Path) -> None:
    assert record.read_text().startswith(f"# {number(record)}: ")
    assert re.findall(r"^## (.+)$", record.read_text(), re.MULTILINE) == SECTIONS


def test_the_index_lists_every_record_with_its_title_and_status() -> None:
    rows = INDEX_ROW.findall((ADR / "README.md").read_text())
    assert rows == [(number(r), r.name, title(r), superseded_by(r)) for r in RECORDS]


def test_a_superseded_record_and_its_successor_name_each_other() -> None:
    replaced = {(number(r), superseded_by(r)) for r in RECORDS if superseded_by(r)}
    successors = {
        (found[1], number(r)) for r in RECORDS if (found := SUPERSEDES.search(r.read_text()))
    }
    assert replaced == successors
    assert replaced
