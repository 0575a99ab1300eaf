"""Mutants are counted as they are: who is not killed survives, and a group below the goal fails."""

import json
from configparser import ConfigParser
from pathlib import Path

import pytest

from proof import mutation
from proof.mutation import GROUPS, NotMeasured, configure, figures, surviving, tried

ROOT = Path(__file__).resolve().parents[2]

CODE = """
def larger(a, b):
    return a if a > b else b


def unlucky(number):
    return number == 13
"""
TEST = """
from shop.code import larger


def test_the_larger_of_two() -> None:
    assert (larger(1, 2), larger(2, 1)) == (2, 2)
"""

SHOP = """
[tool.mutmut]
source_paths = ["shop"]

[tool.pytest.ini_options]
pythonpath = ["."]
"""


def statuses(*alive: str, status: str = "survived") -> dict[str, dict[str, str]]:
    """Twenty mutants of each module, of which the first is killed unless the module is named."""
    found: dict[str, dict[str, str]] = {name: {} for name in GROUPS}
    for name, group in GROUPS.items():
        for module in group.modules:
            mutants = [f"once.{module}.x_f__mutmut_{number}" for number in range(20)]
            found[name] |= dict.fromkeys(mutants, "killed")
            found[name] |= dict.fromkeys(mutants[:1], status) if module in alive else {}
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one module, of which one function has no test."""
    for file, text in {"shop/code.py": CODE, "tests/test_code.py": TEST}.items():
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(text)
    (tmp_path / "pyproject.toml").write_text(SHOP)
    return tmp_path


def test_a_fault_that_no_test_notices_survives(project: Path) -> None:
    found = tried(project)
    alive = surviving(found)
    assert [name for name in alive if "unlucky" in name] == [
        name for name in found if "unlucky" in name
    ]
    # Of two that are equal it does not matter which is the larger.
    assert [mutation.shown(project, name) for name in alive if "larger" in name] == [
        "-    return a if a > b else b\n+    return a if a >= b else b"
    ]
    assert len(found) > len(alive) > 1


def test_without_tests_that_pass_there_is_no_figure(project: Path) -> None:
    test = project / "tests" / "test_code.py"
    test.write_text(test.read_text().replace("== (2, 2)", "== (2, 3)"))
    with pytest.raises(NotMeasured, match="the tests must pass"):
        tried(project)


@pytest.mark.parametrize("status", ["survived", "no tests", "suspicious", "not checked"])
def test_whoever_is_not_killed_survives(status: str) -> None:
    found = statuses("effects.ledger", status=status)
    assert surviving(found["ledger"]) == ["once.effects.ledger.x_f__mutmut_0"]
    assert figures(found, {})["groups"]["ledger"]["killed"] == 59


def test_an_endless_loop_is_noticed_by_its_time() -> None:
    assert surviving(statuses("effects.ledger", status="timeout")["ledger"]) == []


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("commit.committer", "batch.processor", "batch.processor, commit.committer"),
        ("commit.request", "commit._record_lookup", "commit.request"),
    ],
)
def test_a_module_too_many_or_too_few_is_no_figure(old: str, new: str, named: str) -> None:
    found = statuses()
    found["commit"] = {
        mutant.replace(f".{old}.", f".{new}."): status for mutant, status in found["commit"].items()
    }
    with pytest.raises(NotMeasured, match=f"not of commit: {named}$"):
        figures(found, {})


def test_the_report_has_modules_groups_totals_and_survivors() -> None:
    survivors = {"once.batch.processor.x_f__mutmut_0": "+    x"}
    report = figures(statuses("effects.ledger", "batch.processor"), survivors)
    assert report["modules"]["batch.processor"] == {"mutants": 20, "killed": 19, "share": 0.95}
    assert report["groups"]["failures"] == {"mutants": 100, "killed": 99, "share": 0.99}
    assert (report["mutants"], report["killed"]) == (320, 318)
    assert report["survived"] == survivors


_FAILURES = ("failures.visibility_backoff", "failures.circuit_breaker", "failures.quarantine")


@pytest.mark.parametrize(
    ("more", "status"), [((), 0), (("batch.processor", "failures.failure_handler"), 1)]
)
def test_a_run_fails_if_one_group_is_below_the_goal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: tuple[str, ...], status: int
) -> None:
    """Of a hundred mutants five may survive; of all three hundred and twenty, sixteen."""
    found = statuses(*_FAILURES, *more)
    found["failures"]["once.failures.circuit_breaker.x_f__mutmut_1"] = "survived"
    given = iter(found.values())

    def give(project: Path, children: int) -> dict[str, str]:
        (project / "mutants").mkdir()
        return next(given)

    monkeypatch.setattr(mutation, "tried", give)
    monkeypatch.setattr(mutation, "shown", lambda project, mutant: f"+    {mutant}")
    monkeypatch.setattr("proof.report.REPORTS", tmp_path)
    assert mutation.run() == status
    report = json.loads((tmp_path / "mutants.json").read_text())
    assert report["killed"] + len(report["survived"]) == report["mutants"] == 320


@pytest.mark.parametrize("group", GROUPS)
def test_modules_and_tests_of_a_group_exist(group: str, tmp_path: Path) -> None:
    configure(tmp_path, GROUPS[group])
    settings = ConfigParser()
    settings.read(tmp_path / "setup.cfg")
    named = ("only_mutate", "also_copy", "pytest_add_cli_args_test_selection")
    files = [file for name in named for file in settings["mutmut"][name].split()]
    assert len(files) > len(GROUPS[group].modules) + len(GROUPS[group].tests)
    assert [file for file in files if not (ROOT / file).exists()] == []
