"""The simulator with few seeds: the unmodified handlers, and broken ones that it catches."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proof.explore.campaign import KINDS, Campaign
from proof.explore.scopes import SCOPES
from proof.explore.search import Explored, Found
from proof.mutants import IN_ORDER, MUTANTS
from proof.replays import repeat
from proof.shop.replay import Replay, RunResult
from proof.sim import command
from proof.sim.search import Evidence, SeedFigures, caught, run_in_order, run_seed, run_seeds
from proof.sim.shrink import shrunk
from proof.world.faults import Fault
from proof.world.plan import PlatformFault

SEEDS = range(120)
MAX_SEEDS = 300
MUTANT = "no answer is done"
KINDS_OF_FAULT = [*Fault, *PlatformFault]
RARE = {"redrive deletes first"}
"""Takes `make sim` hundreds of seeds; the exploration's tests catch it."""


@pytest.fixture(scope="module")
def figures() -> SeedFigures:
    return run_seeds(SEEDS)


def test_no_seed_breaks_a_promise(figures: SeedFigures) -> None:
    assert [(r.replay.seed, str(r.violation)) for r in figures.violations] == []
    assert figures.seeds == len(SEEDS)


def test_no_seed_breaks_the_order_of_a_group() -> None:
    results = map(run_in_order, range(1000, 1030))
    assert [(r.replay.seed, str(r.violation)) for r in results if r.violation] == []


@pytest.mark.parametrize("kind", KINDS_OF_FAULT, ids=str)
def test_every_kind_of_fault_occurs(figures: SeedFigures, kind: str) -> None:
    assert figures.fired[kind]


@pytest.mark.parametrize("mutant", [name for name in (*MUTANTS, *IN_ORDER) if name not in RARE])
def test_a_broken_protocol_is_caught(mutant: str) -> None:
    assert caught(mutant, MAX_SEEDS) is not None


def test_a_run_is_determined_by_its_seed_and_by_its_replay_file(tmp_path: Path) -> None:
    first, second = run_seed(5), run_seed(5)
    assert first.replay.actions == second.replay.actions != ()
    assert first.log == second.log
    file = tmp_path / "replay.json"
    file.write_text(json.dumps(first.replay.as_json()))
    assert Replay.read(file) == first.replay
    assert repeat(Replay.read(file)).log == first.log


def test_a_file_that_is_no_replay_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}")
    with pytest.raises(ValueError, match=r"other\.json holds no run"):
        Replay.read(file)


@pytest.fixture(scope="module")
def failure() -> RunResult:
    result = caught(MUTANT, MAX_SEEDS)
    assert result is not None
    return result


def test_a_shrunk_run_violates_the_same_oracle_with_less(failure: RunResult) -> None:
    assert failure.violation is not None
    with MUTANTS[MUTANT]():
        small = shrunk(failure.replay, failure.violation.oracle)
        violation = repeat(small).violation
    assert violation is not None
    assert violation.oracle == failure.violation.oracle
    assert 0 < len(small.actions) < len(failure.replay.actions) / 2
    assert repeat(small).violation is None  # the unmodified code is correct


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("proof.report.REPORTS", tmp_path)
    return tmp_path


def campaign(**changed: Any) -> Campaign:
    chosen = Counter(dict.fromkeys(KINDS, 1))
    fields = {"schedules": 7, "states": 5, "complete": True, "faults_by_kind": chosen}
    return Campaign([Explored(SCOPES[0], **{**fields, **changed})])


def run_with(monkeypatch: pytest.MonkeyPatch, *violations: RunResult, **changed: Any) -> int:
    """Run the command with the given results of its search."""
    fired = Counter({str(kind): 1 for kind in KINDS_OF_FAULT})
    fields: dict[str, Any] = {
        "campaign": campaign(),
        "seeds": SeedFigures(3, 9, fired, [*violations]),
        "caught": {"lease, in its scope": True, "no fingerprint, by seeds": True},
    }
    evidence = Evidence(**{**fields, **changed})
    monkeypatch.setattr(command, "search", lambda *_: evidence)
    return command.run(3, 0, 1)


def test_the_report_has_the_figures(monkeypatch: pytest.MonkeyPatch, reports: Path) -> None:
    assert run_with(monkeypatch) == 0
    report = json.loads((reports / "sim.json").read_text())
    assert (report["explored_schedules"], report["states"], report["seeds"]) == (7, 5, 3)
    assert (report["violations"], report["mutants"], report["mutants_caught"]) == (0, 2, 2)
    assert report["faults_by_kind"].keys() == {*map(str, KINDS_OF_FAULT)}


INCOMPLETE = {
    "a broken protocol is not caught": {"caught": {"lease, in its scope": False}},
    "a scope is violated": {"campaign": campaign(found=[Found("s", "o", (), ())])},
    "a scope is not explored to the end": {"campaign": campaign(complete=False)},
    "a kind of fault was not chosen": {"campaign": campaign(faults_by_kind=Counter())},
    "no fault occurred": {"seeds": SeedFigures(seeds=3)},
}


@pytest.mark.parametrize("changed", INCOMPLETE.values(), ids=INCOMPLETE)
def test_an_incomplete_run_fails(
    monkeypatch: pytest.MonkeyPatch, reports: Path, changed: dict[str, Any]
) -> None:
    assert run_with(monkeypatch, **changed) == 1


def test_a_violation_is_printed_with_a_file_that_replays_it(
    monkeypatch: pytest.MonkeyPatch,
    reports: Path,
    failure: RunResult,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with MUTANTS[MUTANT]():
        assert run_with(monkeypatch, failure) == 1
        [file] = reports.glob("sim-*.json")
        printed = capsys.readouterr().out
        assert f"REPLAY={file}" in printed
        assert all(str(action) in printed for action in Replay.read(file).actions)
        assert command.replay(file) == 1
    assert command.replay(file) == 0
