"""The fuzzers' own machinery: counting, crashes, replay and shrinking."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from proof import fuzz, report
from proof.fuzz import command, target
from proof.fuzz.command import Crash
from proof.fuzz.cost import Cost
from proof.fuzz.parsers import PARSERS
from proof.fuzz.shrink import shrunk
from proof.fuzz.target import Target, expect

CHEAP = Cost(family="cheap", bytes=100, accepted=True, ratio=0.5)
EXPENSIVE = Cost(family="expensive", bytes=200, accepted=False, ratio=20.1)


def _fails_on_x(value: Any) -> None:
    if "x" in json.dumps(value):
        raise ZeroDivisionError


def _never_ends(_: Any) -> None:
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


FAILING = Target("failing", 1, lambda rng: {"a": [rng.choice("wxyz"), "more"]}, _fails_on_x)
SOUND = Target("sound", 3, lambda rng: rng.random(), lambda _: None)
ENDLESS = Target("endless", 1, lambda _: "abc", _never_ends)

Fuzz = Callable[..., tuple[int, Any]]


@pytest.fixture
def fuzzed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fuzz:
    """Fuzzes these targets; returns the exit status and the report."""
    monkeypatch.setattr(report, "REPORTS", tmp_path)

    def fuzzed(
        *targets: Target,
        costs: tuple[Cost, ...] = (CHEAP,),
        large: tuple[Cost, ...] = (),
        **options: Any,
    ) -> Any:
        monkeypatch.setattr(command, "PARSERS", targets)
        monkeypatch.setattr(command, "costs", lambda: costs)
        monkeypatch.setattr(command, "large_costs", lambda: large)
        status = fuzz.run(**{"inputs": 100, "seed": 7, "processes": 1} | options)
        return status, json.loads((tmp_path / "fuzz.json").read_text())

    return fuzzed


def test_shares_are_percentages_and_names_are_unique() -> None:
    assert sum(target.share for target in PARSERS) == 100
    assert len({target.name for target in PARSERS}) == len(PARSERS)


def test_an_input_survives_json() -> None:
    for parser in PARSERS:
        for number in range(50):
            value = parser.draw(Random(number))
            assert parser.failure(json.loads(json.dumps(value))) == parser.failure(value)


def test_the_report_counts_the_inputs_of_each_parser(fuzzed: Fuzz) -> None:
    status, figures = fuzzed(SOUND, inputs=1500)
    assert status == 0
    assert figures.pop("seconds") >= 0
    assert figures.pop("slowest_ratio") == 0.5
    assert (figures.pop("memory"), figures.pop("memory_ratio")) == (0, 0)
    assert figures.pop("slowest_accepted")["family"] == "cheap"
    assert figures.pop("slowest_refused") is None
    assert figures == {"inputs": 1500, "crashes": 0, "parsers": {"sound": 1500}, "seed": 7}


def test_an_expensive_message_fails_the_run(
    fuzzed: Fuzz, capsys: pytest.CaptureFixture[str]
) -> None:
    status, figures = fuzzed(SOUND, large=(EXPENSIVE,))
    assert status == 1
    assert figures["slowest_ratio"] == 20.1
    assert figures["slowest_refused"]["family"] == "expensive"
    assert "expensive, 200 bytes: 20.1 times the CPU" in capsys.readouterr().out


def test_two_processes_check_the_same_inputs_as_one(fuzzed: Fuzz) -> None:
    reports = [fuzzed(*PARSERS, inputs=1100, processes=count) for count in (1, 2)]
    assert [status for status, _ in reports] == [0, 0]
    assert reports[0][1]["parsers"] == reports[1][1]["parsers"]


def test_a_crash_fails_the_run_and_can_be_replayed(
    fuzzed: Fuzz, capsys: pytest.CaptureFixture[str]
) -> None:
    status, figures = fuzzed(SOUND, FAILING)
    assert status == 1
    assert 0 < figures["crashes"] < figures["parsers"]["failing"] < figures["inputs"] == 100
    [file] = report.REPORTS.glob("fuzz-crash-*.json")
    crash = Crash(**json.loads(file.read_text()))
    assert crash.input == {"a": ["x"]}
    assert "ZeroDivisionError" in crash.error
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("failing", "seed 7", '{"a": ["x"]}', file.name))
    assert fuzz.replay(file) == 1


def test_a_fixed_crash_passes_its_replay_and_the_next_run_removes_it(fuzzed: Fuzz) -> None:
    fuzzed(FAILING)
    [file] = report.REPORTS.glob("fuzz-crash-1.json")
    status, _ = fuzzed(Target("failing", 1, SOUND.draw, lambda _: None), inputs=1)
    assert status == 0
    assert [file.name for file in report.REPORTS.iterdir()] == ["fuzz.json"]
    report.write("fuzz-crash-1", {"parser": "failing", "input": {"a": ["x"]}})
    assert fuzz.replay(file) == 0


def test_runs_without_a_seed_differ(fuzzed: Fuzz) -> None:
    seeds = {fuzzed(SOUND, inputs=1, seed=None)[1]["seed"] for _ in range(2)}
    assert len(seeds) == 2


def test_an_input_depends_on_the_seed_and_its_number_alone() -> None:
    drawn: list[Any] = []
    recording = Target("recording", 1, lambda rng: rng.random(), drawn.append)
    for seed, numbers in ((7, range(20)), (7, range(19, -1, -1)), (8, range(20))):
        list(command.check(seed, numbers, [recording]))
    assert drawn[:20] == drawn[39:19:-1]
    assert set(drawn[:20]).isdisjoint(drawn[40:])


def test_an_endless_check_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "MAX_SECONDS", 0.05)
    assert str(ENDLESS.failure("abc")).startswith("TimedOut at ")


def test_a_violated_property_is_the_error(fuzzed: Fuzz) -> None:
    def check(value: Any) -> None:
        expect(value < 5, "at most four")

    _, figures = fuzzed(Target("counting", 1, lambda rng: rng.randint(5, 9), check), inputs=9)
    [file] = report.REPORTS.glob("fuzz-crash-*.json")
    assert json.loads(file.read_text())["error"] == "at most four"
    assert figures["crashes"] == 9


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
def test_an_input_is_shrunk_to_the_part_that_fails(value: Any, smallest: Any) -> None:
    assert shrunk(value, lambda found: "x" in json.dumps(found)) == smallest
