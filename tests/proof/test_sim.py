"""The simulator with few seeds: the unmodified handlers, and broken protocols that it catches."""

import json
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from proof import sim
from proof.crashpoints.campaign import Tally, parts, singles
from proof.crashpoints.cases import CASES as POINTS
from proof.crashpoints.cases import Case
from proof.explore.scopes import SCOPES
from proof.explore.search import KINDS, Explored, Found, replayed
from proof.mutants import MUTANTS
from proof.run import Replay, RunResult, repeat, run
from proof.scenarios import SCENARIOS
from proof.scenarios.senders import Story
from proof.scenarios.webhooks import WEBHOOKS
from proof.sim import Evidence, SeedFigures, caught, caught_by_seeds, run_seed, run_seeds
from proof.world.faults import Fault, PlatformFault, script
from tests.architecture.imports import ROOT

SEEDS = {
    "shop": 15,
    "effects": 96,
    "failing orders": 30,
    "fifo": 8,
    "fifo, blocking": 8,
    "items, alone": 5,
    "items, in groups": 5,
    "webhooks": 15,
    "commands": 15,
    "regions": 120,
    "due events": 40,
}
"""So many that every kind of fault occurs, and every row of docs/regions.md; `make sim` runs
20,000."""
MUTANT = "success whatever the ingress did, at the ingress"
SLOW = "resumed is clean"
"""It takes long to find: `make sim` finds it, and tests/proof/test_explore.py repeats it."""
KINDS_OF_FAULT = [*Fault, *PlatformFault]


@pytest.fixture(scope="module")
def figures() -> dict[str, SeedFigures]:
    return {name: run_seeds(range(seeds), name) for name, seeds in SEEDS.items()}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_seed_breaks_a_promise(figures: dict[str, SeedFigures], scenario: str) -> None:
    found = figures[scenario]
    assert [(r.replay.seed, str(r.violation)) for r in found.violations] == []
    assert found.seeds == SEEDS[scenario]


def test_what_a_lost_region_may_lose_or_double_is_what_the_page_says(
    figures: dict[str, SeedFigures],
) -> None:
    counted = figures["regions"].counted
    bad = ("missing", "missing for good", "doubled", "told")
    rows = {row: tuple(counted[row, what] > 0 for what in bad) for row, _ in counted}
    assert rows == {
        "one, record, returns": (False,) * 4,
        "one, item, returns": (False,) * 4,
        "MREC, record, drained": (False,) * 4,
        "MREC, record, pulled": (True,) * 4,
        "MREC, record, returns": (True,) * 4,
        "MREC, item, drained": (False,) * 4,
        "MREC, item, pulled": (False,) * 4,
        "MREC, item, returns": (True, False, False, False),
        "MRSC, item, drained": (False,) * 4,
        "MRSC, item, pulled": (False,) * 4,
        "MRSC, item, returns": (False,) * 4,
    }
    page = (ROOT / "docs" / "regions.md").read_text()
    assert [row for row in rows if page.count(f"| {row} |") != 2] == []  # a promise and figures


def test_every_kind_of_fault_occurs(figures: dict[str, SeedFigures]) -> None:
    assert {*KINDS_OF_FAULT} == {*chain.from_iterable(found.fired for found in figures.values())}


def test_every_patch_of_a_broken_protocol_applies() -> None:
    for broken in MUTANTS.values():
        with broken.patch():
            pass


FIRST = {
    "a hook says what happened": 507,
    "several events of a group in one call": 119,
    "waiting is an attempt": 192,
}
"""The first seed that catches a broken protocol. If it does so no more, all are tried."""


@pytest.mark.parametrize("mutant", sorted({*MUTANTS} - {SLOW}))
def test_a_broken_protocol_is_caught(mutant: str) -> None:
    found: Found | RunResult | None = None
    if (seed := FIRST.get(mutant)) is not None:
        scenarios = MUTANTS[mutant].scenarios
        with MUTANTS[mutant].patch():
            result = run_seed(seed, scenarios[seed % len(scenarios)])
        found = result if result.violation else None
    found = found or caught(mutant)
    assert found is not None
    # Code that does not run any more would break every clause.
    assert not str(found.violation).startswith("raised")
    if isinstance(found, Found):
        with MUTANTS[mutant].patch():
            assert replayed(found.scope, found.choices) == found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_run_is_determined_by_its_seed_and_by_its_replay_file(
    scenario: str, tmp_path: Path
) -> None:
    first, second = run_seed(5, scenario), run_seed(5, scenario)
    assert first.replay.actions == second.replay.actions != ()
    assert first.log == second.log
    file = tmp_path / "replay.json"
    file.write_text(json.dumps(first.replay.as_json()))
    assert Replay.read(file) == first.replay
    assert repeat(Replay.read(file)).log == first.log


SOME = range(2)
"""Seeds that draw when an attacker's copy comes: before the genuine webhook, with it, after it."""
COPIES = ("replayed", "renamed", "stale")
OVERDUE = next(s for s in POINTS if s.name == "an order is cancelled that is not paid in time")
TAKEN = next(s for s in POINTS if s.name == "a webhook is verified, captured, and handed on")


@pytest.mark.parametrize("attack", COPIES)
def test_w2_no_copy_makes_a_second_event_however_it_comes(attack: str) -> None:
    stories = tuple(Story(webhook, attack, copies=3) for webhook in WEBHOOKS)
    results = [run(Replay("webhooks", seed, stories), script(())) for seed in SOME]
    assert [str(result.violation) for result in results if result.violation] == []


def check_every_fault_of(case: Case) -> None:
    tally = Tally()
    for part in parts([case], pairs=False):
        tally.add(part.result())
    assert [str(result.violation) for _, result in tally.broken] == []
    assert (tally.points[1], tally.in_vain) == (len(singles(case, case.run())), 0)


def test_w5_no_fault_at_any_call_loses_a_webhook_that_was_accepted() -> None:
    check_every_fault_of(TAKEN)


def test_o7_no_fault_at_any_call_loses_or_doubles_a_due_event() -> None:
    check_every_fault_of(OVERDUE)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("proof.report.REPORTS", tmp_path)
    return tmp_path


def explored(**changed: Any) -> list[Explored]:
    chosen = Counter(dict.fromkeys(KINDS, 1))
    fields = {"schedules": 7, "states": 5, "complete": True, "faults_by_kind": chosen}
    return [Explored(SCOPES[0], **{**fields, **changed})]


def run_with(monkeypatch: pytest.MonkeyPatch, *violations: RunResult, **changed: Any) -> int:
    """Run the command with the given results of its search."""
    fired = Counter({str(kind): 1 for kind in KINDS_OF_FAULT})
    fields: dict[str, Any] = {
        "explored": explored(),
        "seeds": SeedFigures(3, 9, fired, [*violations]),
        "caught": {"one": True, "other": True},
    }
    evidence = Evidence(**{**fields, **changed})
    monkeypatch.setattr(sim, "collected", lambda *_: evidence)
    return sim.start(3, 0, 1)


def test_the_report_has_the_figures(monkeypatch: pytest.MonkeyPatch, reports: Path) -> None:
    assert run_with(monkeypatch) == 0
    report = json.loads((reports / "sim.json").read_text())
    assert (report["explored_schedules"], report["states"], report["seeds"]) == (7, 5, 3)
    assert (report["violations"], report["mutants"], report["mutants_caught"]) == (0, 2, 2)
    assert report["faults_by_kind"].keys() == {*map(str, KINDS_OF_FAULT)}


INCOMPLETE = {
    "a broken protocol is not caught": {"caught": {"one": False}},
    "a scope is violated": {"explored": explored(found=[Found("s", "o", (), ())])},
    "a scope is not explored to the end": {"explored": explored(complete=False)},
    "a kind of fault was not chosen": {"explored": explored(faults_by_kind=Counter())},
    "no fault occurred": {"seeds": SeedFigures(seeds=3)},
}


@pytest.mark.parametrize("changed", INCOMPLETE.values(), ids=INCOMPLETE)
def test_an_incomplete_run_fails(
    monkeypatch: pytest.MonkeyPatch, reports: Path, changed: dict[str, Any]
) -> None:
    assert run_with(monkeypatch, **changed) == 1


def test_a_violation_is_printed_with_a_file_that_replays_it_with_less(
    monkeypatch: pytest.MonkeyPatch, reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with MUTANTS[MUTANT].patch():
        failure = caught_by_seeds(["webhooks"])
        assert failure is not None
        assert run_with(monkeypatch, failure) == 1
        [file] = reports.glob("sim-*.json")
        printed, small = capsys.readouterr().out, Replay.read(file)
        assert f"REPLAY={file}" in printed
        assert all(str(action) in printed for action in small.actions)
        assert 0 < len(small.actions) < len(failure.replay.actions) / 2
        assert not any(story.attack for story in small.traffic)
        violations = [repeat(small).violation, failure.violation]
        assert len({violation and violation.oracle for violation in violations}) == 1
        assert sim.replay(file) == 1
    assert sim.replay(file) == 0  # the unmodified code is correct


def test_a_violated_scope_is_printed_with_a_file_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = caught("no fingerprint")
    assert isinstance(found, Found)
    with MUTANTS["no fingerprint"].patch():
        assert run_with(monkeypatch, explored=explored(found=[found])) == 1
        file = reports / "sim-scope-1.json"
        printed = capsys.readouterr().out
        assert f"REPLAY={file}" in printed
        assert all(call in printed for call in found.log)
        assert sim.replay(file) == 1
    assert sim.replay(file) == 0
