"""The lab's report, `reports/lab.json`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.matrix.cells import Cell, Verdict
from lab.matrix.runs import Run
from redelivery import Fault

ONCE = "once"


def report(runs: Sequence[Run], faults: Sequence[Fault], seed: int) -> dict[str, Any]:
    """Return the report.

    Args:
        runs: in the order of the approaches.
        faults: the faults that were to be run.
        seed: of the checks.
    """
    return {
        "approaches": [run.approach for run in runs],
        "faults": list(faults),
        "cells": {run.approach: _cells(run) for run in runs},
        "once_clean": once_clean(runs, faults),
        "errors": {run.approach: run.error for run in runs if run.error},
        "seconds": {run.approach: round(run.seconds, 1) for run in runs},
        "seed": seed,
    }


def once_clean(runs: Sequence[Run], faults: Sequence[Fault]) -> bool:
    """Return whether Once was run, has a cell for each fault, and failed in none.

    A cell without a run counts if the conformance kit says why the fault does not apply.
    """
    run = next((run for run in runs if run.approach == ONCE), None)
    if run is None or not run.clean or set(faults) - set(run.cells):
        return False
    cells = run.cells.values()
    return any(cell.verdict is Verdict.PASSED for cell in cells) and not any(map(_missing, cells))


def _missing(cell: Cell) -> bool:
    """Return whether scenarios were run, and the fault took place in none of them."""
    return cell.verdict is Verdict.NOT_RUN and cell.scenarios > 0


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


def _cells(run: Run) -> dict[str, Any]:
    return {str(fault): asdict(cell) for fault, cell in run.cells.items()}
