"""The matrix: a cell for the scenarios of a fault, the report, and the picture."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lab import __main__ as command
from lab.checks import NEVER_FIRED, Run, cells_of, report
from lab.matrix import FOLDER, cell_text, write_picture
from redelivery import Difference, Fault, Kind, Report, Result

POISON, FAULTS = Fault.POISON, [Fault.REFUSED, Fault.POISON]


def result(
    fault: Fault, *kinds: Kind, fired: bool = True, steps: int = 2, name: str = ""
) -> Result:
    found = tuple(Difference(kind, "orders o-1", 1, "app.py:7", "as expected") for kind in kinds)
    return Result(name or f"{fault}@1.1", fault, fired, found, ("a step",) * steps)


def report_of(*results: Result, **not_run: str) -> Report:
    return Report(
        handler="app.handler",
        seed=1,
        results=results,
        course=(),
        ignored={},
        not_run={Fault(fault): reason for fault, reason in not_run.items()},
        controls={"acknowledges first": True},
        seconds=0.1,
    )


@pytest.mark.parametrize(
    ("found", "cell", "text"),
    [
        (
            report_of(result(POISON)),
            {"verdict": "passed", "counts": {}, "scenarios": 1, "fired": 1},
            "✓",
        ),
        (
            report_of(
                result(POISON, Kind.DOUBLED, Kind.LOST, steps=3, name="long"),
                result(POISON, Kind.DOUBLED, name="short"),
                result(POISON, name="harmless"),
                result(POISON, Kind.ACKNOWLEDGED_EARLY, fired=False),
            ),
            {
                "verdict": "failed",
                "counts": {"lost": 1, "doubled": 2},
                "scenarios": 4,
                "fired": 3,
                "smallest": "short",
            },
            "1 lost\n2 doubled",
        ),
        (
            report_of(result(POISON, Kind.STUCK, Kind.DEAD_LETTERED, Kind.ACKNOWLEDGED_EARLY)),
            {"counts": {"acknowledged early": 1, "stuck": 1, "dead-lettered": 1}},
            "acknowledged\nearly\nstuck\ndead-lettered",
        ),
        (
            report_of(poison="it has one sample"),
            {"verdict": "not-run", "scenarios": 0, "fired": 0, "reason": "it has one sample"},
            "–",
        ),
        (
            report_of(result(POISON, Kind.LOST, fired=False)),
            {"verdict": "not-run", "scenarios": 1, "fired": 0, "reason": NEVER_FIRED},
            "–",
        ),
    ],
    ids=["passed", "failed", "named", "not run", "never fired"],
)
def test_a_cell_follows_from_the_report(found: Report, cell: dict[str, Any], text: str) -> None:
    [(fault, shown)] = cells_of(found).items()
    assert (fault, {**shown, **cell}) == ("poison", shown)
    assert cell_text(shown).plain == text


# The report and the picture, from runs made by hand.


CLEAN = report_of(result(POISON), refused="no such call")


def run(approach: str, found: Report, error: str = "") -> Run:
    return Run(approach, cells_of(found), error)


@pytest.mark.parametrize(
    ("once", "clean"),
    [
        (run("once", CLEAN), True),
        (run("once", report_of(result(POISON), result(Fault.REFUSED, Kind.LOST))), False),
        (run("none", CLEAN), False),
        (run("once", report_of(result(POISON))), False),
        (run("once", CLEAN, error="the controls were misjudged"), False),
        (run("once", report_of(result(POISON), result(Fault.REFUSED, fired=False))), False),
        (run("once", report_of(poison="no such call", refused="no such call")), False),
    ],
    ids=["clean", "failed", "not run", "cell missing", "no evidence", "never fired", "nothing ran"],
)
def test_once_is_clean_if_it_passes_every_cell(once: Run, *, clean: bool) -> None:
    content = report([run("message_id", CLEAN), once], FAULTS, seed=1)
    assert content["once_clean"] is clean
    assert content["approaches"] == ["message_id", once.approach]
    assert content["cells"]["message_id"] == cells_of(CLEAN)


def test_a_partial_matrix_does_not_replace_the_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "REPORT", tmp_path / "lab.json")
    monkeypatch.setattr(command, "run_all", lambda *_: iter([run("once", CLEAN)]))
    command.show_matrix(["once"], FAULTS, seed=1, draw=False, console=Console(file=io.StringIO()))
    assert not (tmp_path / "lab.json").exists()


def test_the_picture_on_the_page_shows_the_report_beside_it(tmp_path: Path) -> None:
    content = json.loads((FOLDER / "lab.json").read_text())
    write_picture(content, tmp_path)
    for name in ("lab.json", "lab.svg"):
        assert (tmp_path / name).read_text() == (FOLDER / name).read_text()
