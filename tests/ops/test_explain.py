"""Pages in the terminal: each subject that code, alarms or other pages name has one."""

import json
import re

import pytest

from once.cdk import monitoring
from once.commands.http_door import PROBLEMS
from once.ops.errors import ExitCode
from once.ops.explain import explanation, subjects
from tests.architecture.imports import ROOT
from tests.ops.support import run, stderr_of, stdout_of, words

SUBJECTS = [name for names in subjects().values() for name in names]


def test_every_subject_has_a_page_whose_links_lead_to_pages() -> None:
    for subject in SUBJECTS:
        found = explanation(subject)
        assert found
        text = found.linked(lambda label, other: f"{label}[{other}]")
        assert not re.search(r"<!--|\]\((?!http)|```mermaid", text), subject
        found.linked(lambda label, other: str(explanation(other) or pytest.fail(other)))


def test_what_the_code_names_is_explained() -> None:
    texts = [file.read_text() for file in (ROOT / "once").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"""explained_by\(['"]([^'"]+)""", text)}
    named |= {name for text in texts for name in re.findall(r"`once explain ([a-z#-]+)`", text)}
    assert "rename-or-remove-a-consumer" in named
    assert [name for name in (*named, *monitoring._TEXTS) if explanation(name) is None] == []


def test_every_problem_of_http_is_on_the_page_of_commands() -> None:
    page = stdout_of("explain", "commands", "--json")
    assert [kind for kind in PROBLEMS if f"`{kind}`" not in page] == []


def test_a_reason_and_the_entry_of_an_alarm_are_shown_and_lead_further() -> None:
    reason = words(stdout_of("explain", "died"))
    assert "SQS moved the message to the dead-letter queue by itself" in reason
    assert "once explain also has: unfinished, messages-not-handed-over" in reason
    alarm = words(stdout_of("explain", "function-errors"))
    assert "invocations of the function failed three times" in alarm
    assert "Lambda throttled functions" not in alarm


def test_a_command_is_explained_by_its_help_and_the_form_of_its_json() -> None:
    shown = stdout_of("explain", "once", "dlq", "redrive")
    assert "--returning" in shown
    assert '"came_back"' in shown
    assert "Commands:" in stdout_of("explain", "dlq")


def test_a_line_of_code_is_whole_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    page = (ROOT / "docs" / "without-the-cdk.md").read_text()
    code = re.findall(r"^(?:sam deploy|once template|aws cloudformation) .*$", page, re.MULTILINE)
    shown = stdout_of("explain", "without-the-cdk")
    assert code
    assert [line for line in code if f" {line}\n" not in shown] == []


def test_without_a_subject_all_are_listed_and_for_a_wrong_one_the_nearest() -> None:
    listed = words(stdout_of("explain"))
    assert [name for name in SUBJECTS if name not in listed] == []
    assert json.loads(stdout_of("explain", "--json"))["subjects"] == subjects()
    assert "give key-conflict" in stderr_of("explain", "key-conflicts", code=ExitCode.FAILED)
    assert run("explain", "dlq", "redrives").exit_code == ExitCode.FAILED
