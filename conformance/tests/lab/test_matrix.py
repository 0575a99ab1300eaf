"""The matrix: when `once` is clean in it, its report, and its picture."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from lab import __main__ as command
from lab.checks import Run, cells_of, report
from lab.matrix import FOLDER, write_picture
from redelivery import Difference, Fault, Kind, Report, Result

POISON, FAULTS = Fault.POISON, [Fault.REFUSED, Fault.POISON]


def result(fault: Fault, *kinds: Kind, fired: bool = True) -> Result:
    found = tuple(Difference(kind, "orders o-1", 1, "app.py:7", "as expected") for kind in kinds)
    return Result(f"{fault}@1.1", fault, fired, found, ("a step",))


def report_of(*results: Result, **not_run: str) -> Report:
    return Report(
        handler="app.handler",
        seed=1,
        results=results,
        course=(),
        ignored={},
        not_run={Fault(fault): reason for fault, reason in not_run.items()},
        seconds=0.1,
    )


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
        (run("once", CLEAN, error="the check failed"), False),
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
