"""CI, hooks and Dependabot use the targets and locked tools of the project."""

import re
from pathlib import Path

import pytest

from tests.architecture.imports import ROOT

WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
USES = re.compile(r"uses: (\S+)(.*)")
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")
TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)


def targets() -> set[str]:
    return set(TARGET.findall((ROOT / "Makefile").read_text()))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: str(path.name))
def test_a_workflow_reads_only_runs_targets_and_pins_its_actions(workflow: Path) -> None:
    text = workflow.read_text()
    assert "permissions:\n  contents: read\n" in text
    runs = re.findall(r"run: make (\w+)", text)
    assert runs
    assert set(runs) <= targets()
    actions = USES.findall(text)
    assert actions
    for action, comment in actions:
        assert PINNED.fullmatch(action), f"{action} is not pinned by a commit"
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), f"{action} has no version"


def test_ci_runs_every_test() -> None:
    assert "run: make test" in (ROOT / ".github/workflows/ci.yml").read_text()


def test_slow_files_that_make_check_leaves_out_exist() -> None:
    """Pytest ignores a path that does not exist, and would run the moved file again."""
    (folder, names) = re.findall(
        r"^SLOW := \$\(addprefix (\S+), (.+)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )[0]
    assert [name for name in names.split() if not (ROOT / folder / name).is_file()] == []


def test_hooks_are_local_and_run_the_locked_tools() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    entries = re.findall(r"entry: (\S+)", text)
    assert len(entries) == text.count("- id: ")
    assert {entry.partition("/")[0] for entry in entries} == {".venv"}
    tools = {Path(entry).name for entry in entries}
    locked = (ROOT / "requirements-dev.in").read_text().split()
    assert tools <= set(locked)


def test_dependabot_checks_every_folder_with_a_lock() -> None:
    text = (ROOT / ".github/dependabot.yml").read_text()
    (listed,) = re.findall(r"directories: \[(.+)\]", text)
    places = ("", "functions/**/", "emulator/", "once/**/")
    locks = [lock for place in places for lock in ROOT.glob(f"{place}requirements*.txt")]
    folders = {"/" + str(lock.parent.relative_to(ROOT)).removeprefix(".") for lock in locks}
    assert set(listed.split(", ")) == folders
