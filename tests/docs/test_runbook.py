"""Entries of the runbook for alarms, a page for each reason, and rows of the page on real AWS."""

import ast
import re

import pytest

from once.names import Reason
from once.ops.dead_letters.assessment import remedy
from once.ops.dead_letters.dead_letter import DIED
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


def anchors(cloud: Cloud) -> set[str]:
    """Return the entries that the alarms of a service name."""
    alarms = cloud.every("AWS::CloudWatch::Alarm").values()
    return {alarm["AlarmDescription"].partition("`once explain ")[2][:-1] for alarm in alarms}


def test_every_alarm_has_an_entry_and_every_entry_an_alarm(
    cloud: Cloud, tmp_path_factory: pytest.TempPathFactory
) -> None:
    office = booking_office(tmp_path_factory.mktemp("office"))
    every = Cloud.synthesize(tmp_path_factory.mktemp("all"), alarms="all")
    few = anchors(cloud) | anchors(office)
    assert set(entries()) == few | anchors(every)
    assert {name for name, text in entries().items() if "*(all" not in text} == few


SECTIONS = [
    *("What it means", "Why it happens", "What to do now"),
    "Is it safe to redrive, and will it fail again?",
]
"""Sections of a reason's page. `test_assessment` compares the verdicts of the last one."""


def test_the_runbook_leads_to_a_page_for_each_reason_and_for_none() -> None:
    pages = [path.stem for path in (ROOT / "docs" / "reasons").glob("*.md")]
    linked = re.findall(r"\]\(reasons/([a-z-]+)\.md\)", RUNBOOK)
    assert sorted(linked) == sorted(pages) == sorted([*Reason, DIED])


@pytest.mark.parametrize("reason", [*Reason, DIED])
def test_the_page_of_a_reason_says_what_to_do_as_the_commands_do(reason: str) -> None:
    page = (ROOT / "docs" / "reasons" / f"{reason}.md").read_text()
    title, *parts = re.split(r"^##? ", page, flags=re.MULTILINE)[1:]
    texts = dict(part.split("\n", maxsplit=1) for part in parts)
    assert title.startswith(reason)
    assert list(texts) == SECTIONS
    assert all(text.strip() for text in texts.values())
    todo = " ".join(texts["What to do now"].split())
    advice = remedy(None if reason == DIED else reason) or ""
    assert advice.partition(": `once explain")[0] in todo
    assert "once dlq show MESSAGE_ID" in todo


def test_the_dashboard_has_the_graphs_and_lines_that_entries_name() -> None:
    steps = [step for text in entries().values() for step in text.split("\n- ")]
    told = " ".join(step for step in steps if "dashboard" in step)
    named = set(re.findall(r"(?<!\*)\*([a-z ]+)\*(?!\*)", told)) - {"all"}
    sources = ((ROOT / "once" / "cdk" / f"{n}.py").read_text() for n in ("dashboard", "monitoring"))
    nodes = (node for source in sources for node in ast.walk(ast.parse(source)))
    texts = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert len(named) > 10
    assert named <= {part.strip() for text in texts for part in re.split("[,:]", text)}


def test_the_page_of_real_aws_lists_every_check_in_its_order() -> None:
    page = (ROOT / "docs" / "verify.md").read_text()
    assert ROW.findall(page) == [check.name for check in CHECKS]
