"""The matrix: a cell for the scenarios of a fault, the report, and the picture."""

import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

from lab import __main__ as command
from lab.cells import NEVER_FIRED, Cell, Run, Verdict, cells_in, cells_of, once_clean, report
from lab.matrix import FOLDER, cell_text, matrix, write_picture
from redelivery import Difference, Fault, Kind, Report, Result


def result(
    fault: Fault, *kinds: Kind, fired: bool = True, steps: int = 2, name: str = ""
) -> Result:
    found = tuple(Difference(kind, "orders o-1", 1, "app.py:7", "as expected") for kind in kinds)
    course = tuple(f"step {number}" for number in range(1, steps + 1))
    return Result(name or f"{fault}@1.1", fault, fired, found, course)


def report_of(
    *results: Result, not_run: dict[Fault, str] | None = None, right: bool = True
) -> Report:
    return Report(
        handler="app.handler",
        seed=1,
        results=results,
        course=(),
        ignored={},
        not_run=not_run or {},
        controls={"acknowledges first": right},
        seconds=0.1,
    )


# A cell says what the scenarios of one fault showed.


POISON = Fault.POISON


@pytest.mark.parametrize(
    ("found", "cell", "text"),
    [
        (report_of(result(POISON)), Cell(Verdict.PASSED, {}, 1, 1), "✓"),
        (
            report_of(
                result(POISON, Kind.DOUBLED, Kind.LOST, steps=3, name="long"),
                result(POISON, Kind.DOUBLED, name="short"),
                result(POISON, name="harmless"),
            ),
            Cell(Verdict.FAILED, {Kind.LOST: 1, Kind.DOUBLED: 2}, 3, 3, "short"),
            "1 lost\n2 doubled",
        ),
        (
            report_of(result(POISON, Kind.STUCK, Kind.DEAD_LETTERED, Kind.ACKNOWLEDGED_EARLY)),
            Cell(
                Verdict.FAILED,
                dict.fromkeys([Kind.ACKNOWLEDGED_EARLY, Kind.STUCK, Kind.DEAD_LETTERED], 1),
                scenarios=1,
                fired=1,
                smallest="poison@1.1",
            ),
            "acknowledged\nearly\nstuck\ndead-lettered",
        ),
        (
            report_of(not_run={POISON: "it has one sample"}),
            Cell(Verdict.NOT_RUN, reason="it has one sample"),
            "–",
        ),
        (
            report_of(result(POISON, Kind.LOST, fired=False)),
            Cell(Verdict.NOT_RUN, scenarios=1, reason=NEVER_FIRED),
            "–",
        ),
    ],
    ids=["passed", "failed", "named", "not run", "never fired"],
)
def test_a_cell_follows_from_the_report(found: Report, cell: Cell, text: str) -> None:
    assert cells_of(found) == {POISON: cell}
    assert cell_text(cell).plain == text
    assert Cell.from_json(json.loads(json.dumps(asdict(cell)))) == cell


# The matrix, its report and its picture, from runs made by hand.


FAULTS = [Fault.POISON, Fault.REFUSED]
CLEAN = report_of(result(Fault.POISON), not_run={Fault.REFUSED: "no such call"})
HARMED = report_of(result(Fault.POISON, Kind.LOST), not_run={Fault.REFUSED: "no such call"})
HARMED_IN_ONE = report_of(result(Fault.POISON), result(Fault.REFUSED, Kind.LOST))


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
        [run("once", report_of(result(Fault.POISON)))],
        [run("once", CLEAN, error="the controls were misjudged")],
        [
            run(
                "once",
                report_of(result(Fault.POISON), result(Fault.REFUSED, fired=False)),
            )
        ],
        [run("once", report_of(not_run=dict.fromkeys(FAULTS, "no such call")))],
    ],
    ids=["failed", "not run", "cell missing", "no evidence", "never fired", "nothing ran"],
)
def test_once_is_not_clean(of: list[Run]) -> None:
    assert once_clean(of, FAULTS) is False


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
