"""Crash points: the points of a case, their figures, and the report of a violation."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from proof.crashpoints import campaign
from proof.crashpoints.campaign import parts, run, second_points, singles
from proof.crashpoints.cases import CASES, Case
from proof.mutants import MUTANTS
from proof.run import Replay, RunResult, repeat
from proof.world.faults import Action, Fault

NAMED = {case.name: case for case in CASES}
PAID, REFUSED = NAMED["an order is paid"], NAMED["an article runs out"]
CAUGHT = {
    "no answer is done": (PAID.name, {"acknowledged without effect"}),
    "a blocked group goes on": (
        "an entry fails, and its group waits for the correction",
        {"out of order"},
    ),
}
"""The case and the clauses that catch each broken protocol by a single point."""


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "reports"
    monkeypatch.setattr("proof.report.REPORTS", folder)
    return folder


@pytest.fixture(scope="module")
def refused() -> RunResult:
    return REFUSED.run()


def test_no_single_point_of_an_order_that_is_paid_breaks_a_promise(reports: Path) -> None:
    assert run(processes=1, quick=True) == 0
    written = json.loads((reports / "crashpoints.json").read_text())
    assert written["points"] == written["singles"] == len(singles(PAID, PAID.run())) > 100
    assert (written["pairs"], written["violations"], written["in_vain"]) == (0, 0, 0)
    assert written["kinds"].keys() >= {str(kind) for kind in campaign.KINDS}


@pytest.mark.parametrize("mutant", CAUGHT)
def test_a_broken_protocol_is_caught(mutant: str) -> None:
    case, oracles = CAUGHT[mutant]
    with MUTANTS[mutant].patch():
        tallies = (part.result() for part in parts([NAMED[case]], pairs=False))
        _, result = next(broken for tally in tallies for broken in tally.broken)
    assert result.violation is not None
    assert result.violation.oracle in oracles


def test_a_violation_is_printed_with_a_file_that_replays_it(
    reports: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "CASES", (REFUSED,))
    with MUTANTS["acknowledged before the commit"].patch():
        assert run(processes=1, quick=True) == 1
        file = reports / "crashpoints-violation-1.json"
        violation = repeat(Replay.read(file)).violation
    assert violation is not None
    assert violation.oracle == "acknowledged without effect"
    printed = capsys.readouterr().out
    again = "make sim REPLAY=reports/crashpoints-violation-1.json"
    for text in (str(violation), f"in: {REFUSED.name}", "** ", again):
        assert text in printed
    assert json.loads((reports / "crashpoints.json").read_text())["violations"] > 0


def test_a_kind_of_fault_that_does_not_occur_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    idle = Case("no orders", ())
    monkeypatch.setattr(campaign, "CASES", (idle,))
    assert run(processes=1, quick=True) == 1
    assert "crash before never took place" in capsys.readouterr().out


def test_single_points_are_all_faults_of_all_calls_without_a_fault(refused: RunResult) -> None:
    points = singles(REFUSED, refused)
    assert {(point.place, point.number, point.what) for point in points} == {
        (one.place, one.number, kind) for one in refused.reached for kind in one.possible
    }
    assert len({*points}) == len(points)
    first = points[0]
    own = replace(REFUSED, actions=(Action(first.place, first.number, Fault.LOST),))
    assert {*singles(own, refused)} == {
        point for point in points if (point.place, point.number) != (first.place, first.number)
    }


def test_second_points_are_at_the_next_call_of_each_place(refused: RunResult) -> None:
    first = next(point for point in singles(REFUSED, refused) if point.what == Fault.THROTTLE)
    alone = REFUSED.run([first])
    places = [(one.place, one.number) for one in alone.reached]
    after = places[places.index((first.place, first.number)) + 1 :]
    following = [*second_points(alone, first)]
    assert {(point.place, point.number) for point in following} == {
        next(one for one in after if one[0] == place) for place, _ in after
    }
    for second in following[::9]:
        assert REFUSED.run([first, second]).replay.actions == (first, second)


def test_pairs_begin_at_the_first_call_of_each_place() -> None:
    found = [part.arguments[1:3] for part in parts([REFUSED], pairs=True)]
    assert {point.number for point, in_pairs in found if in_pairs} == {1}
    places = {point.place for point, _ in found}
    assert {point.place for point, in_pairs in found if in_pairs} == places
    alone = parts([replace(REFUSED, in_pairs=False)], pairs=True)
    assert not any(part.arguments[2] for part in alone)
