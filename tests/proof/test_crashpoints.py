"""Crash points: what is tried, what counts, and how a broken promise is told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from proof.crashpoints import campaign, run
from proof.crashpoints.exploration import Part, explore, parts
from proof.crashpoints.points import begins_pairs, seconds, singles
from proof.crashpoints.scenarios import SCENARIOS, Scenario, follow
from proof.crashpoints.tally import Tally
from proof.mutants import MUTANTS
from proof.shop.course import Course, Replay, play
from proof.world.faults import Fault
from proof.world.plan import Action

[PAID] = [scenario for scenario in SCENARIOS if scenario.name == "an order is paid"]
[REFUSED] = [scenario for scenario in SCENARIOS if scenario.name == "an article runs out"]


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "reports"
    monkeypatch.setattr("proof.report.REPORTS", folder)
    return folder


@pytest.fixture(scope="module")
def course() -> Course:
    return follow(REFUSED)


def test_no_single_point_of_an_order_that_is_paid_breaks_a_promise(reports: Path) -> None:
    assert run(processes=1, quick=True) == 0
    written = json.loads((reports / "crashpoints.json").read_text())
    assert written["points"] == written["singles"] == len(singles(PAID, follow(PAID)))
    assert written["singles"] > 100
    assert (written["pairs"], written["violations"], written["in_vain"]) == (0, 0, 0)
    assert written["kinds"].keys() >= {str(kind) for kind in campaign.KINDS}


def test_a_broken_promise_is_told_and_can_be_played_again(
    reports: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "SCENARIOS", (REFUSED,))
    with MUTANTS["acknowledged before the commit"]():
        assert run(processes=1, quick=True) == 1
        file = reports / "crashpoints-violation-1.json"
        again = play(Replay.read(file)).violation
    assert again is not None
    assert again.oracle == "acknowledged in vain"
    told = capsys.readouterr().out
    assert str(again) in told
    assert f"in: {REFUSED.name}" in told
    assert "** " in told
    assert "make sim REPLAY=reports/crashpoints-violation-1.json" in told
    assert json.loads((reports / "crashpoints.json").read_text())["violations"] > 0


def test_a_kind_that_never_takes_place_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        campaign, "SCENARIOS", (Scenario("nothing", replace(REFUSED.traffic, orders=())),)
    )
    assert run(processes=1, quick=True) == 1
    assert "crash before never took place" in capsys.readouterr().out


@pytest.mark.parametrize("kind", sorted(campaign.KINDS))
def test_each_kind_takes_place_and_costs_further_calls(kind: Fault, course: Course) -> None:
    [first, *_] = course.met
    point = Action(first.place, first.number, kind)
    troubled = follow(REFUSED, [point])
    assert troubled.violation is None
    assert troubled.actions == (point,)
    assert len(troubled.log) > len(course.log)


def test_a_single_point_is_every_kind_at_every_call(course: Course) -> None:
    points = singles(REFUSED, course)
    tried = {(point.place, point.number, point.what) for point in points}
    assert tried == {
        (each.place, each.number, what) for each in course.met for what in each.possible
    }
    assert len({*points}) == len(points)


def test_where_something_goes_wrong_already_nothing_else_is_tried(course: Course) -> None:
    [first, *_] = course.met
    taken = replace(REFUSED, actions=(Action(first.place, first.number, Fault.LOST),))
    points = singles(taken, course)
    assert points
    assert (first.place, first.number) not in {(point.place, point.number) for point in points}


def test_a_second_point_is_at_the_next_call_of_each_place(course: Course) -> None:
    first = next(point for point in singles(REFUSED, course) if point.what == Fault.THROTTLE)
    alone = follow(REFUSED, [first])
    places = [(each.place, each.number) for each in alone.met]
    at = places.index((first.place, first.number))
    following = [*seconds(alone, first)]
    chosen = {(point.place, point.number) for point in following}
    assert chosen == {
        next(each for each in places[at + 1 :] if each[0] == place)
        for place in {place for place, _ in places[at + 1 :]}
    }
    assert all(
        follow(REFUSED, [first, second]).actions == (first, second) for second in following[::9]
    )


def test_pairs_begin_at_the_first_call_of_each_place() -> None:
    found = parts([REFUSED], pairs=True)
    assert {part.point.number for part in found if part.in_pairs} == {1}
    assert {part.point.place for part in found if part.in_pairs} == {p.point.place for p in found}
    assert not any(part.in_pairs for part in parts([replace(REFUSED, in_pairs=False)], pairs=True))


def test_a_point_is_counted_with_its_pairs(course: Course) -> None:
    points = singles(REFUSED, course)
    point = next(each for each in points if begins_pairs(each, points))
    tally = explore(Part(REFUSED, point, in_pairs=True))
    assert tally.points[1] == 1
    assert tally.points[2] == len([*seconds(follow(REFUSED, [point]), point)]) > 0
    assert (tally.in_vain, tally.broken) == (0, [])


def test_what_did_not_take_place_does_not_count(course: Course) -> None:
    tally = Tally()
    never = Action("nowhere", 1, Fault.LOST)
    tally.count(REFUSED, [never], course)
    assert (tally.points.total(), tally.in_vain) == (0, 1)
