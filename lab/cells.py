"""Cells of the matrix: what the scenarios of one fault showed of one approach; their report.

The report is `reports/lab.json`.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from redelivery import Fault, Kind, Report

FAULTS = tuple(fault for fault in Fault if fault is not Fault.TWO_FAULTS)
"""Columns of the matrix: the faults that a check plays without a time for it."""

NEVER_FIRED = "no scenario reached the call of its fault"
ONCE = "once"


class Verdict(StrEnum):
    """The verdict of a cell."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not-run"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: the number of scenarios, and of those in which the fault took place.

    Attributes:
        verdict: `passed` if a fault took place and no scenario found a difference.
        counts: the differences of all scenarios together, by their kind.
        smallest: the failing scenario with the shortest course; empty without one.
        reason: the reason of `not-run`.
    """

    verdict: Verdict
    counts: Mapping[Kind, int] = field(default_factory=dict)
    scenarios: int = 0
    fired: int = 0
    smallest: str = ""
    reason: str = ""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Cell":
        """Return the cell that `dataclasses.asdict` has written."""
        counts = {Kind(kind): count for kind, count in values["counts"].items()}
        return cls(**{**values, "verdict": Verdict(values["verdict"]), "counts": counts})


@dataclass(frozen=True, slots=True)
class Run:
    """The check of one approach; `error` says why it is no evidence, and is empty if it is."""

    approach: str
    cells: Mapping[Fault, Cell] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0


def cells_of(report: Report, faults: Collection[Fault] = FAULTS) -> dict[Fault, Cell]:
    """Return a cell for each of the faults that the report mentions."""
    mentioned = {result.fault for result in report.results} | set(report.not_run)
    return {fault: _cell(report, fault) for fault in faults if fault in mentioned}


def _cell(report: Report, fault: Fault) -> Cell:
    results = report.of(fault)
    fired = [result for result in results if result.fired]
    if not fired:
        reason = report.not_run.get(fault, NEVER_FIRED)
        return Cell(Verdict.NOT_RUN, scenarios=len(results), reason=reason)
    failures = [result for result in report.failures if result.fault is fault]
    found = [difference for result in failures for difference in result.differences]
    counts = {kind: sum(d.count for d in found if d.kind is kind) for kind in Kind}
    return Cell(
        verdict=Verdict.FAILED if failures else Verdict.PASSED,
        counts={kind: number for kind, number in counts.items() if number},
        scenarios=len(results),
        fired=len(fired),
        smallest=failures[0].scenario if failures else "",
    )


def report(runs: Sequence[Run], faults: Sequence[Fault], seed: int) -> dict[str, Any]:
    """Return the report of runs, for the faults that were to be run."""
    return {
        "approaches": [run.approach for run in runs],
        "faults": list(faults),
        "cells": {
            run.approach: {str(fault): asdict(cell) for fault, cell in run.cells.items()}
            for run in runs
        },
        "once_clean": once_clean(runs, faults),
        "errors": {run.approach: run.error for run in runs if run.error},
        "seconds": {run.approach: round(run.seconds, 1) for run in runs},
        "seed": seed,
    }


def once_clean(runs: Sequence[Run], faults: Sequence[Fault]) -> bool:
    """Return whether Once was run, has a cell for each fault, and failed in none.

    A cell without a run counts if the conformance kit says why the fault does not apply: it does
    not if scenarios were run, and the fault took place in none of them.
    """
    run = next((run for run in runs if run.approach == ONCE), Run(ONCE))
    cells = run.cells.values()
    passed = [cell for cell in cells if cell.verdict is Verdict.PASSED]
    without = [c for c in cells if c.verdict is Verdict.NOT_RUN and not c.scenarios]
    complete = not set(faults) - set(run.cells) and len(passed) + len(without) == len(cells)
    return not run.error and bool(passed) and complete


def write(content: Mapping[str, Any], path: Path) -> None:
    """Write a report as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def cells_in(content: Mapping[str, Any]) -> dict[str, dict[Fault, Cell]]:
    """Return the cells of a report that was read from JSON."""
    return {
        name: {Fault(fault): Cell.from_json(cell) for fault, cell in row.items()}
        for name, row in content["cells"].items()
    }
