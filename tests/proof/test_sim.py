"""The simulator in its short form: the unmodified handlers, and broken ones that it catches."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proof.explore.campaign import KINDS, Campaign
from proof.explore.scopes import SCOPES
from proof.explore.search import Explored
from proof.explore.search import Found as FoundInScope
from proof.mutants import MUTANTS
from proof.shop.course import Course, Replay, play
from proof.shop.ledger import Violation
from proof.shop.traffic import drawn
from proof.sim import command
from proof.sim.evidence import Evidence
from proof.sim.search import Found, by_chance, caught, searched
from proof.sim.shrink import shrunk
from proof.world.faults import Fault
from proof.world.plan import Mishap

SEEDS = range(120)
ENOUGH = 300
UNKNOWN = "no answer is done"
RARE = {"redrive deletes first"}
"""Takes `make sim` hundreds of seeds; the short form of the crash points catches it."""


@pytest.fixture(scope="module")
def found() -> Found:
    return searched(SEEDS)


def test_no_seed_breaks_a_promise(found: Found) -> None:
    assert [(c.replay.seed, str(c.violation)) for c in found.courses] == []
    assert found.seeds == len(SEEDS)


@pytest.mark.parametrize("kind", [*Fault, *Mishap], ids=str)
def test_every_kind_of_fault_takes_place(found: Found, kind: str) -> None:
    assert found.fired[kind]


@pytest.mark.parametrize("mutant", [name for name in MUTANTS if name not in RARE])
def test_a_broken_protocol_is_caught(mutant: str) -> None:
    assert caught(mutant, ENOUGH) is not None


def test_the_same_seed_takes_the_same_course() -> None:
    first, second = by_chance(5), by_chance(5)
    assert first.replay.actions == second.replay.actions
    assert first.log == second.log


def test_a_scenario_takes_the_course_it_was_written_from(tmp_path: Path) -> None:
    course = by_chance(5)
    assert course.replay.actions
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(course.replay.as_json()))
    assert Replay.read(file) == course.replay
    assert play(Replay.read(file)).log == course.log


@pytest.fixture(scope="module")
def failure() -> Course:
    course = caught(UNKNOWN, ENOUGH)
    assert course is not None
    return course


def test_what_is_shrunk_breaks_the_same_promise_with_less(failure: Course) -> None:
    assert failure.violation is not None
    with MUTANTS[UNKNOWN]():
        small = shrunk(failure.replay, failure.violation.oracle)
        violation = play(small).violation
    assert violation is not None
    assert violation.oracle == failure.violation.oracle
    assert 0 < len(small.actions) < len(failure.replay.actions) / 2
    assert play(small).violation is None  # the real code keeps it


def test_a_file_that_holds_no_scenario_is_named(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}")
    with pytest.raises(ValueError, match=r"other\.json holds no run"):
        Replay.read(file)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for module in ("proof.report", "proof.sim.command"):
        monkeypatch.setattr(f"{module}.REPORTS", tmp_path)
    return tmp_path


def evidence(*courses: Course, **more: Any) -> Evidence:
    fired = Counter({str(kind): 1 for kind in (*Fault, *Mishap)})
    parts: dict[str, Any] = {
        "campaign": campaign(),
        "broken_in_scopes": {"lease": BROKEN},
        "found": Found(seeds=3, calls=9, fired=fired, courses=[*courses]),
        "broken_by_seeds": {"no fingerprint": Course(REPLAY, Violation("o", "w"), fired, [])},
    }
    return Evidence(**{**parts, **more})


def campaign(**more: Any) -> Campaign:
    chosen = Counter(dict.fromkeys(KINDS, 1))
    parts = {"schedules": 7, "states": 5, "complete": True, "faults_by_kind": chosen}
    return Campaign([Explored(SCOPES[0], **{**parts, **more})])


BROKEN = FoundInScope("s", "o", (), ())
REPLAY = Replay(0, drawn(0), ())


def run_on(monkeypatch: pytest.MonkeyPatch, seen: Evidence) -> int:
    monkeypatch.setattr(command, "gathered", lambda *_: seen)
    return command.run(3, 0, 1)


def test_the_report_says_what_was_seen(monkeypatch: pytest.MonkeyPatch, reports: Path) -> None:
    assert run_on(monkeypatch, evidence()) == 0
    report = json.loads((reports / "sim.json").read_text())
    assert (report["explored_schedules"], report["states"], report["seeds"]) == (7, 5, 3)
    assert report["violations"] == 0
    assert (report["mutants"], report["mutants_caught"]) == (2, 2)
    assert report["faults_by_kind"].keys() == {*map(str, (*Fault, *Mishap))}


@pytest.mark.parametrize(
    "more",
    [
        {"broken_in_scopes": {"lease": None}},
        {"broken_by_seeds": {"no fingerprint": None}},
        {"campaign": campaign(found=[BROKEN])},
        {"campaign": campaign(complete=False)},
        {"campaign": campaign(faults_by_kind=Counter())},
        {"found": Found(seeds=3)},
    ],
    ids=[
        "not caught in its scope",
        "not caught by seeds",
        "a scope is violated",
        "a scope is not explored to the end",
        "a kind of fault was not chosen",
        "no fault took place",
    ],
)
def test_a_run_that_shows_less_than_it_should_fails(
    monkeypatch: pytest.MonkeyPatch, reports: Path, more: dict[str, Any]
) -> None:
    assert run_on(monkeypatch, evidence(**more)) == 1


def test_a_broken_promise_is_printed_with_a_file_that_replays_it(
    monkeypatch: pytest.MonkeyPatch,
    reports: Path,
    failure: Course,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with MUTANTS[UNKNOWN]():
        assert run_on(monkeypatch, evidence(failure)) == 1
        [file] = reports.glob("sim-*.json")
        shown = capsys.readouterr().out
        assert f"REPLAY={file}" in shown
        assert all(str(action) in shown for action in Replay.read(file).actions)
        assert command.replay(file) == 1
    assert command.replay(file) == 0
