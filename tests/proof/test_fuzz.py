"""The search for failing inputs: counting, crashes, replay and shrinking."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from proof import fuzz, report
from proof.fuzz import command, search
from proof.fuzz.command import PARSERS
from proof.fuzz.cost import Cost
from proof.fuzz.search import Parser, expect

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


def _nested(rng: Random) -> Any:
    return {"a": [rng.choice("wyzx"), "more"[: rng.randrange(5)]], "b": [rng.randrange(99)]}


FAILING = Parser("failing", 1, _nested, _fails_on_x)
SOUND = Parser("sound", 3, lambda rng: rng.random(), lambda _: None)
ENDLESS = Parser("endless", 1, lambda _: "abc", _never_ends)

Fuzz = Callable[..., tuple[int, Any]]


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(search, "DATABASE", tmp_path / "database")


@pytest.fixture
def fuzzed(monkeypatch: pytest.MonkeyPatch) -> Fuzz:
    """Fuzzes these parsers; returns the exit status and the report."""

    def fuzzed(
        *parsers: Parser,
        costs: tuple[Cost, ...] = (CHEAP,),
        large: tuple[Cost, ...] = (),
        **options: Any,
    ) -> Any:
        monkeypatch.setattr(command, "PARSERS", parsers)
        monkeypatch.setattr(command, "PAIRS", 2)
        monkeypatch.setattr(command, "check_pair", lambda _: CHEAP)
        monkeypatch.setattr(command, "costs", lambda: costs)
        monkeypatch.setattr(command, "large_costs", lambda _: large)
        monkeypatch.setattr(command, "_known", {})
        status = fuzz.run(**{"inputs": 100, "seed": 7, "processes": 1} | options)
        return status, json.loads((report.REPORTS / "fuzz.json").read_text())

    return fuzzed


def test_shares_are_percentages_and_names_are_unique() -> None:
    assert sum(parser.share for parser in PARSERS) == 100
    assert len({parser.name for parser in PARSERS}) == len(PARSERS)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_an_input_survives_json(parser: Parser) -> None:
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
    counted = {"inputs": 1500, "crashes": 0, "parsers": {"sound": 1500}, "seed": 7}
    assert figures == counted | {"failures": []}


def test_an_expensive_message_fails_the_run(
    fuzzed: Fuzz, capsys: pytest.CaptureFixture[str]
) -> None:
    status, figures = fuzzed(SOUND, large=(EXPENSIVE,))
    assert status == 1
    assert figures["slowest_ratio"] == 20.1
    assert figures["slowest_refused"]["family"] == "expensive"
    assert "expensive, 200 bytes: 20.1 times the CPU" in capsys.readouterr().out


def test_two_processes_check_every_input_of_every_parser(fuzzed: Fuzz) -> None:
    status, figures = fuzzed(*PARSERS, inputs=500, processes=2)
    assert status == 0
    assert figures["parsers"] == {parser.name: 5 * parser.share for parser in PARSERS}


def test_a_crash_fails_the_run_and_can_be_replayed(
    fuzzed: Fuzz, capsys: pytest.CaptureFixture[str]
) -> None:
    status, figures = fuzzed(SOUND, FAILING)
    assert status == 1
    assert 1 < figures["crashes"] < figures["parsers"]["failing"] == 25
    [file] = report.REPORTS.glob("fuzz-crash-*.json")
    crash = json.loads(file.read_text())
    assert crash["input"] == {"a": ["x", ""], "b": [0]}
    assert "ZeroDivisionError" in crash["error"]
    again = "make fuzz REPLAY=reports/fuzz-crash-1.json"
    assert figures["failures"] == [crash | {"replay": again, "count": figures["crashes"]}]
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("failing", "seed 7", '{"a": ["x", ""]', again))
    assert fuzz.replay(file) == 1


def test_every_input_that_fails_is_counted(fuzzed: Fuzz) -> None:
    checked: list[Any] = []

    def check(value: Any) -> None:
        checked.append(value)
        _fails_on_x(value)

    _, figures = fuzzed(Parser("failing", 1, _nested, check), inputs=1000)
    failing = sum("x" in json.dumps(value) for value in checked[:1000])
    assert figures["inputs"] == 1000
    assert figures["crashes"] == failing > 100


def test_the_next_run_begins_with_the_failing_input(fuzzed: Fuzz) -> None:
    fuzzed(FAILING)
    found = search.stored(FAILING)
    assert [*found.smallest.values()] == [{"a": ["x", ""], "b": [0]}]
    assert found.failures.total() == 1


def test_a_fixed_crash_passes_its_replay_and_the_next_run_removes_it(fuzzed: Fuzz) -> None:
    fuzzed(FAILING)
    [file] = report.REPORTS.glob("fuzz-crash-1.json")
    status, _ = fuzzed(Parser("failing", 1, _nested, lambda _: None), inputs=1)
    assert status == 0
    assert [file.name for file in report.REPORTS.iterdir()] == ["fuzz.json"]
    report.write("fuzz-crash-1", {"parser": "failing", "input": {"a": ["x"]}})
    assert fuzz.replay(file) == 0


def test_runs_without_a_seed_differ(fuzzed: Fuzz) -> None:
    seeds = {fuzzed(SOUND, inputs=1, seed=None)[1]["seed"] for _ in range(2)}
    assert len(seeds) == 2


def test_an_input_depends_on_the_seed_alone() -> None:
    drawn: list[Any] = []
    recording = Parser("recording", 1, lambda rng: rng.getrandbits(64), drawn.append)
    for chunk in ("7/0", "7/0", "7/1"):
        search.search(recording, chunk, 20, set())
    first, again, other = drawn[:20], drawn[20:40], drawn[40:]
    assert first == again
    assert len(set(first) & set(other)) < 6  # each begins with the plainest input


def test_an_endless_check_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_SECONDS", 0.05)
    assert str(ENDLESS.failure("abc")).startswith("TimedOut at ")


def test_shrinking_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds: Iterator[int] = iter(range(0, 10**9, 5))
    monkeypatch.setattr("proof.fuzz.search.time.monotonic", lambda: next(seconds))
    found = search.search(FAILING, "7", 50, set())
    assert found.failures.total() > 1
    assert "x" in json.dumps(found.smallest)


def test_an_error_is_shrunk_once_in_a_process() -> None:
    known: set[str] = set()
    small, first = (search.search(FAILING, "7/0", 50, known).smallest for _ in range(2))
    assert len(known) == 1
    assert len(json.dumps(small)) < len(json.dumps(first))


def test_a_violated_property_is_the_error(fuzzed: Fuzz) -> None:
    def check(value: Any) -> None:
        expect(value < 5, "at most four")

    _, figures = fuzzed(Parser("counting", 1, lambda rng: rng.randint(5, 9), check), inputs=9)
    [crash] = figures["failures"]
    assert (crash["error"], crash["input"]) == ("at most four", 5)
    assert figures["crashes"] == figures["inputs"] == 10
