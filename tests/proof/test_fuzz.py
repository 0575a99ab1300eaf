"""The fuzzers: nothing is found, all is counted, and what is found can be seen again."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from proof import fuzz, report
from proof.fuzz import crash, guard
from proof.fuzz.cost import Cost
from proof.fuzz.crash import Crash, failure
from proof.fuzz.hunt import hunt
from proof.fuzz.parsers import PARSERS
from proof.fuzz.shrink import shrunk
from proof.fuzz.target import Target, claim
from tests.proof.fuzzing import INPUTS, SEED


def _explodes(found: Any) -> None:
    if "x" in json.dumps(found):
        raise ZeroDivisionError


def _never_ends(_: Any) -> None:
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


EXPLODING = Target("exploding", 1, lambda rng: {"a": [rng.choice("wxyz"), "more"]}, _explodes)
PATIENT = Target("patient", 3, lambda rng: rng.random(), lambda found: None)
ENDLESS = Target("endless", 1, lambda rng: "abc", _never_ends)


@pytest.fixture(autouse=True)
def _reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "REPORTS", tmp_path)
    monkeypatch.setattr(
        "proof.fuzz.campaign.costs",
        lambda: [Cost(family="quick", bytes=100, accepted=True, ratio=0.5)],
    )


@pytest.fixture
def _alarm() -> Iterator[None]:
    with guard.alarm():
        yield


def parsers(monkeypatch: pytest.MonkeyPatch, *targets: Target) -> None:
    monkeypatch.setattr("proof.fuzz.campaign.PARSERS", targets)


def test_the_short_form_finds_nothing_and_reaches_every_parser() -> None:
    haul = hunt(SEED, range(INPUTS), PARSERS)
    assert list(map(str, haul.crashes.values())) == []
    assert haul.inputs.total() == INPUTS
    for target in PARSERS:
        assert haul.inputs[target.name] > INPUTS * target.share / 200


def test_the_shares_are_hundredths() -> None:
    assert sum(target.share for target in PARSERS) == 100
    assert len({target.name for target in PARSERS}) == len(PARSERS)


def test_an_input_can_be_kept_as_json() -> None:
    for target in PARSERS:
        for number in range(50):
            drawn = target.draw(Random(number))
            assert failure(target, json.loads(json.dumps(drawn))) == failure(target, drawn)


def test_a_report_counts_the_inputs_of_each_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    parsers(monkeypatch, PATIENT)
    assert fuzz.run(1500, seed=7, processes=1) == 0
    figures = json.loads((report.REPORTS / "fuzz.json").read_text())
    assert figures.pop("seconds") >= 0
    assert figures.pop("slowest_ratio") == 0.5
    assert figures.pop("slowest_accepted")["family"] == "quick"
    assert figures.pop("slowest_refused") is None
    assert figures == {"inputs": 1500, "crashes": 0, "parsers": {"patient": 1500}, "seed": 7}


def test_a_run_in_which_an_input_costs_too_much_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parsers(monkeypatch, PATIENT)
    expensive = [
        Cost(family="quick", bytes=100, accepted=True, ratio=0.5),
        Cost(family="dear", bytes=200, accepted=False, ratio=20.1),
    ]
    monkeypatch.setattr("proof.fuzz.campaign.costs", lambda: expensive)
    assert fuzz.run(1, seed=7, processes=1) == 1
    figures = json.loads((report.REPORTS / "fuzz.json").read_text())
    assert figures["slowest_ratio"] == 20.1
    assert figures["slowest_refused"]["family"] == "dear"
    assert "dear, 200 bytes: 20.1 times a plain body" in capsys.readouterr().out


def test_two_processes_check_what_one_does() -> None:
    parsers_reached = []
    for processes in (1, 2):
        assert fuzz.run(1100, seed=SEED, processes=processes) == 0
        figures = json.loads((report.REPORTS / "fuzz.json").read_text())
        parsers_reached.append(figures["parsers"])
    assert parsers_reached[0] == parsers_reached[1]


def test_a_crash_fails_the_run_and_can_be_replayed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parsers(monkeypatch, PATIENT, EXPLODING)
    assert fuzz.run(100, seed=7, processes=1) == 1
    figures = json.loads((report.REPORTS / "fuzz.json").read_text())
    assert 0 < figures["crashes"] < figures["parsers"]["exploding"] < figures["inputs"] == 100
    [file] = report.REPORTS.glob("fuzz-crash-*.json")
    kept = json.loads(file.read_text())
    assert kept["input"] == {"a": ["x"]}
    assert "ZeroDivisionError" in kept["error"]
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("exploding", "seed 7", '{"a": ["x"]}', file.name))
    assert fuzz.replay(file) == 1
    parsers(monkeypatch, Target("exploding", 1, PATIENT.draw, lambda found: None))
    assert fuzz.replay(file) == 0


def test_what_an_earlier_run_found_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    parsers(monkeypatch, EXPLODING)
    assert fuzz.run(50, seed=7, processes=1) == 1
    parsers(monkeypatch, PATIENT)
    assert fuzz.run(50, seed=7, processes=1) == 0
    assert [file.name for file in report.REPORTS.iterdir()] == ["fuzz.json"]


def test_a_run_without_a_seed_has_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    parsers(monkeypatch, PATIENT)
    seeds = set()
    for _ in range(2):
        fuzz.run(1, processes=1)
        seeds.add(json.loads((report.REPORTS / "fuzz.json").read_text())["seed"])
    assert len(seeds) == 2


def test_an_input_depends_on_its_number_alone() -> None:
    drawn: list[Any] = []
    noting = Target("noting", 1, lambda rng: rng.random(), drawn.append)
    hunt(7, range(20), [noting])
    hunt(7, [*range(1, 20, 2), *range(0, 20, 2)], [noting])
    hunt(8, range(20), [noting])
    first, second, other = drawn[:20], drawn[20:40], drawn[40:]
    assert sorted(first) == sorted(second)
    assert set(first).isdisjoint(other)


@pytest.mark.usefixtures("_alarm")
def test_an_input_that_never_ends_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_SECONDS", 0.05)
    assert str(failure(ENDLESS, "abc")).startswith("Hung at ")


def test_a_property_is_named_by_its_crash() -> None:
    def check(found: Any) -> None:
        claim(found < 5, "five is too many")

    target = Target("counting", 1, lambda rng: rng.randint(5, 9), check)
    haul = hunt(7, range(9), [target])
    assert list(haul.failed) == [("counting", "five is too many")]
    assert haul.failed.total() == 9


@pytest.mark.parametrize(
    ("value", "smallest"),
    [
        ("a long text with an x in it", "x"),
        (["a", ["b", "xyz"], {"c": "d"}], [["x"]]),
        ({"a": 1, "b": {"c": [1, 2, "x"], "d": 17}}, {"b": {"c": ["x"]}}),
        ({"x": [1, 2, {"y": None}]}, {"x": []}),
        ([17, None, {"y": True}, "x"], ["x"]),
    ],
)
def test_an_input_is_shrunk_to_what_fails(value: Any, smallest: Any) -> None:
    assert shrunk(value, lambda found: "x" in json.dumps(found)) == smallest


def test_a_crash_is_written_under_its_number() -> None:
    file = Crash("exploding", 7, 3, "x", "input").write(2)
    assert file.name == "fuzz-crash-2.json"
    assert crash.replayed(file, [EXPLODING]) is None
