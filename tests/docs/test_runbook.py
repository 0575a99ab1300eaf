"""Entries of the runbook for alarms and reasons, and rows of the page on real AWS for checks."""

import re

import pytest

from once.names import Reason
from proof.real_aws.checks import CHECKS
from tests.architecture.imports import ROOT
from tests.stacks.booking_office import booking_office
from tests.stacks.cloud import Cloud

RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
ROW = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def entries() -> dict[str, str]:
    """Return the text of each alarm's entry, by its anchor."""
    chapter = RUNBOOK.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    _, *parts = re.split(r"^### ", chapter, flags=re.MULTILINE)
    return {anchor(part.partition("\n")[0]): part for part in parts}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    return booking_office(tmp_path_factory.mktemp("office"))


def test_every_alarm_has_an_entry_and_every_entry_an_alarm(cloud: Cloud, office: Cloud) -> None:
    every = (each.every("AWS::CloudWatch::Alarm").values() for each in (cloud, office))
    alarms = [alarm for found in every for alarm in found]
    named = {alarm["AlarmDescription"].partition("runbook.html#")[2] for alarm in alarms}
    assert set(entries()) == named


def test_every_reason_has_one_row_and_every_row_a_reason() -> None:
    assert ROW.findall(RUNBOOK) == list(Reason)


def test_the_page_of_real_aws_lists_every_check_in_its_order() -> None:
    page = (ROOT / "docs" / "verify.md").read_text()
    assert ROW.findall(page) == [check.name for check in CHECKS]
