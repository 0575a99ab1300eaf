"""A cell says what the scenarios of one fault showed."""

import json
from dataclasses import asdict

import pytest

from lab.cells import NEVER_FIRED, Cell, Verdict, cells_of
from lab.matrix import cell_text
from redelivery import Fault, Kind, Report
from tests.lab.reports import report, result

POISON = Fault.POISON


@pytest.mark.parametrize(
    ("found", "cell", "text"),
    [
        (report(result(POISON)), Cell(Verdict.PASSED, {}, 1, 1), "✓"),
        (
            report(
                result(POISON, Kind.DOUBLED, Kind.LOST, steps=3, name="long"),
                result(POISON, Kind.DOUBLED, name="short"),
                result(POISON, name="harmless"),
            ),
            Cell(Verdict.FAILED, {Kind.LOST: 1, Kind.DOUBLED: 2}, 3, 3, "short"),
            "1 lost\n2 doubled",
        ),
        (
            report(result(POISON, Kind.STUCK, Kind.DEAD_LETTERED, Kind.ACKNOWLEDGED_EARLY)),
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
            report(not_run={POISON: "it has one sample"}),
            Cell(Verdict.NOT_RUN, reason="it has one sample"),
            "–",
        ),
        (
            report(result(POISON, Kind.LOST, fired=False)),
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


def test_a_fault_without_a_scenario_or_reason_has_no_cell() -> None:
    assert list(cells_of(report(result(Fault.SENT_AGAIN), result(Fault.REFUSED)))) == [
        Fault.REFUSED,
        Fault.SENT_AGAIN,
    ]
    assert cell_text(None).plain == "–"
