"""The search for failing inputs: counting, crashes, replay and shrinking."""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from once.events.cloud_event import read_event
from once.events.identity import canonical
from once.events.strict_json import parse
from proof import report
from proof.fuzz import command, cost, reading, search, values
from proof.fuzz.cost import Cost
from proof.fuzz.search import Parser, expect
from proof.workers import Part

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


FAILING = Parser("failing", 1, 0.1, _nested, _fails_on_x)
SOUND = Parser("sound", 3, 0.1, lambda rng: rng.random(), lambda _: None)
ENDLESS = Parser("endless", 1, 0.1, lambda _: "abc", _never_ends)

Fuzz = Callable[..., tuple[int, Any]]


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(search, "DATABASE", tmp_path / "database")


@pytest.fixture
def fuzzed(monkeypatch: pytest.MonkeyPatch) -> Fuzz:
    """Fuzzes these parsers in this process; returns the exit status and the report."""

    def in_this_process(parts: list[Part], *_: object, apart: bool) -> list[Any]:
        assert apart
        return [part.result() for part in parts]

    def fuzzed(*parsers: Parser, costs: tuple[Cost, ...] = (CHEAP,), **options: Any) -> Any:
        measured = Part("costs", "bodies", 1, lambda _: list(costs), (), 1.0)
        monkeypatch.setattr(command, "PARSERS", parsers)
        monkeypatch.setattr(cost, "parts", lambda: [measured])
        monkeypatch.setattr(command, "run_parts", in_this_process)
        status = command.run(**{"inputs": 100, "seed": 7} | options)
        return status, json.loads((report.REPORTS / "fuzz.json").read_text())

    return fuzzed


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
    status, figures = fuzzed(SOUND, costs=(CHEAP, EXPENSIVE))
    assert status == 1
    assert figures["slowest_ratio"] == 20.1
    assert figures["slowest_refused"]["family"] == "expensive"
    assert "expensive, 200 bytes: 20.1 times the CPU" in capsys.readouterr().out


def test_a_crash_fails_the_run_and_can_be_replayed(
    fuzzed: Fuzz, capsys: pytest.CaptureFixture[str]
) -> None:
    status, figures = fuzzed(SOUND, FAILING)
    assert status == 1
    assert 1 <= figures["crashes"] < figures["parsers"]["failing"] == 25
    [file] = report.REPORTS.glob("fuzz-crash-*.json")
    crash = json.loads(file.read_text())
    assert crash["input"] == {"a": ["x", ""], "b": [0]}
    assert "ZeroDivisionError" in crash["error"]
    again = "make fuzz REPLAY=reports/fuzz-crash-1.json"
    assert figures["failures"] == [crash | {"replay": again, "count": figures["crashes"]}]
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("failing", "seed 7", '{"a": ["x", ""]', again))
    assert command.replay(file) == 1


def test_the_next_run_begins_with_the_failing_input(fuzzed: Fuzz) -> None:
    fuzzed(FAILING)
    found = search.fuzz(FAILING, "another seed", 1)
    assert [*found.failing.values()] == [{"a": ["x", ""], "b": [0]}]


def test_a_fixed_crash_passes_its_replay_and_the_next_run_removes_it(fuzzed: Fuzz) -> None:
    fuzzed(FAILING)
    [file] = report.REPORTS.glob("fuzz-crash-1.json")
    status, _ = fuzzed(Parser("failing", 1, 0.1, _nested, lambda _: None), inputs=1)
    assert status == 0
    assert [file.name for file in report.REPORTS.iterdir()] == ["fuzz.json"]
    report.write("fuzz-crash-1", {"parser": "failing", "input": {"a": ["x"]}})
    assert command.replay(file) == 0


def test_an_endless_check_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_SECONDS", 0.05)
    assert str(ENDLESS.failure("abc")).startswith("TimedOut at ")


def test_every_error_is_shrunk() -> None:
    def check(value: Any) -> None:
        expect(value < 5, "at most four")
        expect(value != 3, "not three")

    parser = Parser("counting", 1, 0.1, lambda rng: rng.randrange(9), check)
    found = search.fuzz(parser, "7", 500)
    assert found.failing == {"at most four": 5, "not three": 3}
    assert found.checked == 500
    assert found.failures["at most four"] > found.failures["not three"] > 10


@pytest.mark.parametrize(
    ("function", "errors"),
    [
        (parse, values.PARSE_ERRORS),
        (read_event, reading.EVENT_ERRORS),
        (canonical, values.CANONICAL_ERRORS),
    ],
)
def test_the_fuzzers_allow_the_documented_errors(
    function: Callable[..., Any], errors: tuple[type[Exception], ...]
) -> None:
    raises = (inspect.getdoc(function) or "").partition("Raises:")[2]
    documented = ", ".join(re.findall(r"^    ([A-Z][\w, ]+):", raises, flags=re.MULTILINE))
    # The fuzzers give no deadline.
    assert {error.__name__ for error in errors} == set(documented.split(", ")) - {"OutOfTime"}
