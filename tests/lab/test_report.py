"""The matrix, its report and its picture, from runs made by hand."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from lab import __main__ as command
from lab.cells import Run, cells_in, cells_of, once_clean, report
from lab.matrix import FOLDER, matrix, write_picture
from redelivery import Fault, Kind, Report
from tests.lab import reports

FAULTS = [Fault.POISON, Fault.REFUSED]
CLEAN = reports.report(reports.result(Fault.POISON), not_run={Fault.REFUSED: "no such call"})
HARMED = reports.report(
    reports.result(Fault.POISON, Kind.LOST), not_run={Fault.REFUSED: "no such call"}
)
HARMED_IN_ONE = reports.report(
    reports.result(Fault.POISON), reports.result(Fault.REFUSED, Kind.LOST)
)


def run(approach: str, found: Report, **more: object) -> Run:
    return Run(approach, cells_of(found), **more)  # type: ignore[arg-type]


def printed(*of: Run, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(matrix({r.approach: r.cells for r in of}, FAULTS, width))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_the_report_has_a_cell_for_each_approach_and_fault() -> None:
    content = report([run("none", HARMED), run("once", CLEAN)], FAULTS, seed=1)
    assert content["approaches"] == ["none", "once"]
    assert content["faults"] == ["poison", "refused"]
    assert content["cells"]["none"]["poison"] == {
        "verdict": "failed",
        "counts": {"lost": 1},
        "scenarios": 1,
        "fired": 1,
        "smallest": "poison@1.1",
        "reason": "",
    }
    assert content["once_clean"] is True
    assert cells_in(json.loads(json.dumps(content)))["once"] == run("once", CLEAN).cells


@pytest.mark.parametrize(
    "of",
    [
        [run("once", HARMED_IN_ONE)],
        [run("none", CLEAN)],
        [run("once", reports.report(reports.result(Fault.POISON)))],
        [run("once", CLEAN, error="the controls were misjudged")],
        [
            run(
                "once",
                reports.report(
                    reports.result(Fault.POISON), reports.result(Fault.REFUSED, fired=False)
                ),
            )
        ],
        [run("once", reports.report(not_run=dict.fromkeys(FAULTS, "no such call")))],
    ],
    ids=["failed", "not run", "cell missing", "no evidence", "never fired", "nothing ran"],
)
def test_once_is_not_clean(of: list[Run]) -> None:
    assert once_clean(of, FAULTS) is False


def test_the_matrix_has_a_row_for_each_fault_and_says_what_was_not_run() -> None:
    text = printed(run("none", HARMED), run("once", CLEAN))
    (row,) = [line for line in text.splitlines() if "poison" in line]
    assert [cell.strip() for cell in row.split("│")[1:4]] == ["poison", "1 lost", "✓"]
    assert "– refused (all): no such call" in text


def test_columns_that_do_not_fit_follow_in_another_table() -> None:
    names = ["none", "claim_first", "once"]
    text = printed(*(run(name, CLEAN) for name in names), width=60)
    assert text.count("poison ") == 2
    assert max(map(len, text.splitlines())) <= 60
    assert all(name in text for name in names)


@pytest.mark.parametrize(
    ("of", "passed", "last"),
    [
        ([run("none", HARMED), run("once", CLEAN)], True, "Once passes every cell"),
        ([run("once", HARMED)], False, "Once does not pass every cell"),
        ([run("none", CLEAN, error="no module")], False, "none is no evidence: no module"),
    ],
)
def test_the_command_prints_progress_and_says_whether_once_is_clean(
    monkeypatch: pytest.MonkeyPatch, of: list[Run], *, passed: bool, last: str
) -> None:
    monkeypatch.setattr(command, "run_all", lambda *_: iter(of))
    console = Console(file=io.StringIO(), width=160)
    names = [each.approach for each in of]
    assert command.show_matrix(names, FAULTS, seed=1, draw=False, console=console) is passed
    lines = str(console.file.getvalue()).splitlines()  # type: ignore[attr-defined]
    assert lines[1].startswith(f"1/{len(of)} {names[0]}: ")
    assert lines[-1] == last


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
