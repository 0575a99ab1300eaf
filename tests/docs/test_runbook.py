"""The runbook has an entry for each kind of alarm and a row for each reason."""

import re
from collections.abc import Iterator

import pytest

from once.names import Reason
from tests.architecture.imports import ROOT
from tests.docs.test_references import anchor
from tests.stacks.booking_office import booking_office
from tests.stacks.cloud import Cloud

RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
REASON = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)


def entries() -> dict[str, str]:
    """Return the text of each alarm's entry, by its anchor."""
    chapter = RUNBOOK.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    _, *parts = re.split(r"^### ", chapter, flags=re.MULTILINE)
    return {anchor(part.partition("\n")[0]): part for part in parts}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with booking_office(tmp_path_factory.mktemp("office")) as office:
        yield office


def test_every_alarm_has_an_entry_and_every_entry_an_alarm(cloud: Cloud, office: Cloud) -> None:
    every = (each.every("AWS::CloudWatch::Alarm").values() for each in (cloud, office))
    alarms = [alarm for found in every for alarm in found]
    named = {alarm["AlarmDescription"].partition("docs/runbook.md#")[2] for alarm in alarms}
    assert set(entries()) == named


@pytest.mark.parametrize("entry", entries())
def test_an_entry_has_four_steps(entry: str) -> None:
    steps = re.findall(r"^- \*\*(\w+)\*\*: ", entries()[entry], re.MULTILINE)
    assert steps == ["Means", "Look", "Do", "Worked"]


def test_every_reason_has_one_row_and_every_row_a_reason() -> None:
    assert REASON.findall(RUNBOOK) == list(Reason)


def test_the_row_of_a_reason_has_all_its_cells() -> None:
    rows = [line for line in RUNBOOK.splitlines() if REASON.match(line)]
    for row in rows:
        _, _, means, safe, first, _ = (cell.strip() for cell in row.split("|"))
        assert means
        assert first
        assert safe in {"yes", "yes, but it comes back", "**no**", "it has no queue"}


def test_anchors_are_unique() -> None:
    anchors = [anchor(text) for text in re.findall(r"^###? (.+)$", RUNBOOK, re.MULTILINE)]
    assert len(set(anchors)) == len(anchors)
