"""The pytest plugin: one test for each fault, one check a session, and nothing slow to import."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import pytest

from .support import KIT

CONFTEST = """
from pathlib import Path
from redelivery import SubjectError, pytest_plugin
from conformance.tests import support as reports

def check(subject, **options):
    with Path("checks").open("a") as checks:
        print(subject.handler, subject.root, *subject.events, options, file=checks)
    if subject.handler == "WRONG":
        raise SubjectError("the sample is \\x1b[31mred")
    report = getattr(reports, subject.handler)
    return reports.of_scenario(report, options["replay"]) if options.get("replay") else report

pytest_plugin.run_check = check
"""

TESTS = """
from pathlib import Path
import pytest
from redelivery import Fault, Subject

SUBJECT = Subject("{report}", events=[Path("event.json")], root="service")

@pytest.mark.parametrize("fault", Fault)
def test_fault(redelivery, fault):
    redelivery.check(SUBJECT, fault)

def test_all(redelivery):
    redelivery.check(SUBJECT)

def test_other_seed(redelivery):
    redelivery.check(SUBJECT, "redriven", seed=3)

def test_replay(redelivery):
    redelivery.check(SUBJECT, replay="redriven@1")
"""

ACCEPTED = {
    "function": ".",
    "handler": "app.handler",
    "fault": "dies-after",
    "kind": "lost",
    "what": "message to mails",
    "reason": "mails are sent again each night",
}

REPORTS = ("FAILED", "IDLE", "WRONG")
SLOW = {"boto3", "botocore", "moto", "click", "rich", "time_machine", "urllib3"}


@dataclass(frozen=True)
class Run:
    """A run of pytest in a folder of its own."""

    output: str
    checks: list[str]
    cases: dict[str, ET.Element]

    def outcomes(self) -> dict[str, str]:
        """Return `failure`, `skipped` or `passed` by test."""
        return {name: _outcome(case) for name, case in self.cases.items()}

    def message(self, case: str) -> str:
        """Return the text that says why a test failed."""
        return self.cases[case].findtext("failure", "")

    def skip_reason(self, case: str) -> str:
        """Return why a test was skipped."""
        [skipped] = self.cases[case].iter("skipped")
        return skipped.attrib["message"]


def _outcome(case: ET.Element) -> str:
    tags = {element.tag for element in case} & {"failure", "error", "skipped"}
    return tags.pop() if tags else "passed"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """One run of pytest over a module for each report, by the report."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "service").mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    for report in REPORTS:
        (folder / f"test_{report}.py").write_text(TESTS.format(report=report))
    (folder / "redelivery-accepted.json").write_text(json.dumps([ACCEPTED]))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "--junitxml=x"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (KIT, KIT.parent)))},
        capture_output=True,
        text=True,
        check=False,
    )
    checks = (folder / "checks").read_text().splitlines()
    cases: dict[str, dict[str, ET.Element]] = {report: {} for report in REPORTS}
    for case in ET.parse(folder / "x").iter("testcase"):
        cases[case.attrib["classname"].removeprefix("test_")][case.attrib["name"]] = case
    return {
        report: Run(done.stdout, [c for c in checks if c.startswith(f"{report} ")], found)
        for report, found in cases.items()
    }


@pytest.fixture(scope="module")
def failed(runs: dict[str, Run]) -> Run:
    return runs["FAILED"]


def test_each_fault_is_a_test_of_its_own(failed: Run) -> None:
    found = failed.outcomes()
    assert found["test_fault[dies-before]"] == "passed"
    assert found["test_fault[dies-after]"] == "failure"
    assert found["test_fault[conflicted]"] == "skipped"
    assert found["test_fault[poison]"] == "skipped"
    assert (found["test_all"], found["test_replay"]) == ("failure", "passed")


def test_a_skip_says_why(failed: Run) -> None:
    skips = {
        "conflicted": "conflicted: the handler writes nothing to DynamoDB",
        "poison": "poison: never took place in 1 scenario",
        "throttled": "throttled: no scenario",
    }
    assert {fault: failed.skip_reason(f"test_fault[{fault}]") for fault in skips} == skips


def test_a_failure_is_the_report_of_its_fault_without_a_traceback(failed: Run) -> None:
    message = failed.message("test_fault[dies-after]")
    assert message.startswith("dies-after: 2 doubled\n")
    assert "Step 1 of dies-after@1.2." in message
    assert "redelivery.check(subject, replay='dies-after@1.2', seed=7)" in message
    assert "dies-before" not in message
    assert "conflicted" not in message
    assert "dies-before" in failed.message("test_all")
    assert "pytest_plugin.py" not in failed.output


def test_a_subject_is_checked_once_a_session_and_seed(failed: Run) -> None:
    seeds = [re.findall(r"'seed': (\d)(?:, 'replay': '(.*)')?", line) for line in failed.checks]
    assert seeds == [[("1", "")], [("3", "")], [("1", "redriven@1")]]


def test_relative_paths_begin_at_the_projects_root(failed: Run) -> None:
    paths = {tuple(map(Path, line.split()[1:3])) for line in failed.checks}
    assert {(root.name, event.name) for root, event in paths} == {("service", "event.json")}
    assert all(path.is_absolute() for pair in paths for path in pair)


def test_junit_has_the_scenarios_and_those_that_fired(failed: Run) -> None:
    properties = failed.cases["test_fault[dies-before]"].iter("property")
    found = {element.attrib["name"]: element.attrib["value"] for element in properties}
    assert found == {"scenarios": "2", "fired": "1"}


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        ("IDLE", "NO VERDICT: no fault took place"),
        ("WRONG", "WRONG: the sample is \\x1b[31mred"),
    ],
)
def test_without_a_verdict_no_fault_passes(report: str, reason: str, runs: dict[str, Run]) -> None:
    done = runs[report]
    found = {name: done.outcomes()[name] for name in done.cases if name != "test_replay"}
    assert set(found.values()) == {"failure"}
    assert all(done.message(name).startswith(reason) for name in found)


def test_the_plugin_imports_nothing_slow() -> None:
    code = "import sys, redelivery.pytest_plugin; print(*{n.split('.')[0] for n in sys.modules})"
    printed = subprocess.check_output(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(KIT)},
        text=True,
    )
    assert "pytest" in printed.split()
    assert SLOW & set(printed.split()) == set()
