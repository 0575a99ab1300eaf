"""The README's recipe, followed literally in a copy of the project: every check stays green."""

import re

import pytest

from tests.newcomer.workspace import PYTHON, Workspace

TESTS = (
    *("tests/golden/test_consumers.py", "tests/stacks/test_retained.py"),  # need golden data
    *("tests/cdk/test_event_routes.py", "tests/cdk/test_loops.py", "tests/docs/test_costs.py"),
)
"""Those that a consumer can turn red: found by running all tests after the recipe."""

COMMAND = re.compile(r"run `\.venv/bin/(python -m tests\.golden)`")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    copy = Workspace.copy(tmp_path_factory.mktemp("recipe") / "once")
    copy.add_consumer()
    return copy


def succeeds(workspace: Workspace, *command: str) -> str:
    done = workspace.run(*command)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check .", "mypy"])
def test_ruff_and_mypy_accept_the_consumer(workspace: Workspace, command: str) -> None:
    succeeds(workspace, *command.split())


def test_the_example_of_a_test_runs(workspace: Workspace) -> None:
    example = PYTHON.findall((workspace.folder / "README.md").read_text())[1]
    imported = "from functions.tickets.handler import consumer\n"
    succeeds(workspace, "python", "-c", imported + example)


def test_the_failure_names_the_command_that_adds_golden_data(workspace: Workspace) -> None:
    pytest_of = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    red = workspace.run(*pytest_of, *TESTS[:2])
    named = set(COMMAND.findall(red.stdout))
    assert (red.returncode, len(named)) == (1, 1), red.stdout
    told = succeeds(workspace, *named.pop().split())
    assert "tickets: seat.booked: added" in told
    succeeds(workspace, *pytest_of, *TESTS)
