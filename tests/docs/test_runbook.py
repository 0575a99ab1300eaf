"""The runbook: an entry for each kind of alarm and a row for each reason, and none besides."""

import re

import pytest

from once.schema import Reason
from stacks.folders import ROOT
from tests.stacks.cloud import Cloud

RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
REASON = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)
LINK = re.compile(r"\]\(#([a-z-]+)\)")


def anchor(heading: str) -> str:
    """Return the anchor that a heading gets."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def headings(level: int) -> list[str]:
    return [text for marks, text in HEADING.findall(RUNBOOK) if len(marks) == level]


def entries() -> dict[str, str]:
    """Return the text of every entry by its anchor."""
    chapter = RUNBOOK.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    _, *parts = re.split(r"^### ", chapter, flags=re.MULTILINE)
    return {anchor(part.partition("\n")[0]): part for part in parts}


def test_every_alarm_has_an_entry_and_every_entry_an_alarm(cloud: Cloud) -> None:
    alarms = cloud.every("AWS::CloudWatch::Alarm").values()
    named = {alarm["AlarmDescription"].partition("docs/runbook.md#")[2] for alarm in alarms}
    assert set(entries()) == named


@pytest.mark.parametrize("entry", entries())
def test_an_entry_says_what_it_means_where_to_look_what_to_do_and_if_it_worked(entry: str) -> None:
    steps = re.findall(r"^- \*\*(\w+)\*\*: ", entries()[entry], re.MULTILINE)
    assert steps == ["Means", "Look", "Do", "Worked"]


def test_every_reason_has_one_row_and_every_row_a_reason() -> None:
    assert REASON.findall(RUNBOOK) == list(Reason)


def test_every_row_says_what_it_means_whether_it_is_safe_and_what_comes_first() -> None:
    rows = [line for line in RUNBOOK.splitlines() if REASON.match(line)]
    for row in rows:
        _, _, means, safe, first, _ = (cell.strip() for cell in row.split("|"))
        assert means
        assert first
        assert safe in {"yes", "yes, but it comes back", "**no**", "it has no queue"}


def test_links_inside_the_page_lead_somewhere() -> None:
    anchors = {anchor(text) for level in (2, 3) for text in headings(level)}
    assert set(LINK.findall(RUNBOOK)) <= anchors
    assert len(anchors) == len(headings(2) + headings(3))
