"""Mutation testing: a mutant that is not killed survives, and a group below the goal fails."""

import json
from configparser import ConfigParser
from pathlib import Path

import pytest

from proof import mutation
from proof.mutation import GROUPS, Measured, NotMeasured, configure, figures, run_mutmut, surviving

ROOT = Path(__file__).resolve().parents[2]
SHOP = {
    "shop/code.py": """
def larger(a, b):
    return a if a > b else b


def unlucky(number):
    return number == 13


def halvings(number):
    times = 0
    while number > 1:
        number //= 2
        times += 1
    return times
""",
    "tests/test_code.py": """
from shop.code import halvings, larger


def test_the_larger_of_two() -> None:
    assert (larger(1, 2), larger(2, 1)) == (2, 2)


def test_the_halvings_of_eight() -> None:
    assert halvings(8) == 3
""",
    "pyproject.toml": """
[tool.mutmut]
source_paths = ["shop"]

[tool.pytest.ini_options]
pythonpath = ["."]
""",
}


def statuses(*alive: str) -> dict[str, dict[str, str]]:
    """Twenty killed mutants of each module; the first one of the given modules survives."""
    found: dict[str, dict[str, str]] = {name: {} for name in GROUPS}
    for name, group in GROUPS.items():
        for module in group.modules:
            mutants = [f"once.{module}.x_f__mutmut_{number}" for number in range(20)]
            found[name] |= dict.fromkeys(mutants, "killed")
            found[name] |= dict.fromkeys(mutants[:1], "survived") if module in alive else {}
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one module, of which one function has no test."""
    for file, text in SHOP.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    return tmp_path


def test_a_fault_without_a_failing_test_survives(project: Path) -> None:
    found, changes = run_mutmut(project)
    alive = surviving(found)
    assert [*changes] == alive
    assert [n for n in alive if "unlucky" in n] == [n for n in found if "unlucky" in n]
    # Of two equal numbers, either is the larger.
    assert [changes[name] for name in alive if "larger" in name] == [
        "-    return a if a > b else b\n+    return a if a >= b else b"
    ]
    assert len(found) > len(alive) > 1
    assert "timeout" in found.values()  # of a loop that no longer ends


def test_failing_tests_give_no_figures(project: Path) -> None:
    test = project / "tests" / "test_code.py"
    test.write_text(test.read_text().replace("== (2, 2)", "== (2, 3)"))
    with pytest.raises(NotMeasured, match="no mutant was tested"):
        run_mutmut(project)


ALL = 20 * sum(len(group.modules) for group in GROUPS.values())


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("commit.committer", "batch.processor", "batch.processor, commit.committer"),
        ("commit.dedup_record", "commit.result", "commit.dedup_record"),
    ],
)
def test_a_module_too_many_or_too_few_gives_no_figures(old: str, new: str, named: str) -> None:
    found = statuses()
    found["commit"] = {
        mutant.replace(f".{old}.", f".{new}."): status for mutant, status in found["commit"].items()
    }
    with pytest.raises(NotMeasured, match=f"not of commit: {named}$"):
        figures(found, {})


_FAILURES = ("failures.failure_handler", "failures.circuit_breaker", "failures.quarantine")


@pytest.mark.parametrize(("more", "status"), [((), 0), (("batch.processor",), 1)])
def test_a_run_fails_if_one_group_is_below_the_goal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: tuple[str, ...], status: int
) -> None:
    """Four of the group's eighty mutants may survive, though more of all mutants might."""
    found = statuses(*_FAILURES, *more)
    found["failures"]["once.failures.circuit_breaker.x_f__mutmut_1"] = "survived"
    results = iter(found.values())

    def next_result(project: Path, _: int) -> Measured:
        (project / "mutants").mkdir()
        found = next(results)
        return Measured(found, dict.fromkeys(surviving(found), "+    changed"))

    monkeypatch.setattr(mutation, "run_mutmut", next_result)
    monkeypatch.setattr("proof.report.REPORTS", tmp_path)
    assert mutation.run() == status
    report = json.loads((tmp_path / "mutants.json").read_text())
    assert report["killed"] + len(report["survived"]) == report["mutants"] == ALL


@pytest.mark.parametrize("group", GROUPS)
def test_modules_and_tests_of_a_group_exist(group: str, tmp_path: Path) -> None:
    configure(tmp_path, GROUPS[group])
    settings = ConfigParser()
    settings.read(tmp_path / "setup.cfg")
    named = ("only_mutate", "also_copy", "pytest_add_cli_args_test_selection")
    files = [file for name in named for file in settings["mutmut"][name].split()]
    assert len(files) > len(GROUPS[group].modules) + len(GROUPS[group].tests)
    assert [file for file in files if not (ROOT / file).exists()] == []
