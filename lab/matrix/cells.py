"""Cells of the matrix: what the scenarios of one fault showed of one approach."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from redelivery import Fault, Kind, Report

NEVER_FIRED = "no scenario reached the call of its fault"


class Verdict(StrEnum):
    """The verdict of a cell."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not-run"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell.

    Attributes:
        verdict: `passed` if a fault took place and no scenario found a difference.
        counts: the differences of all scenarios together, by their kind.
        scenarios: the number of scenarios.
        fired: the number of those in which the fault took place.
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


def cells_of(report: Report, faults: Collection[Fault] = tuple(Fault)) -> dict[Fault, Cell]:
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
    counts: Counter[Kind] = Counter()
    for result in failures:
        for difference in result.differences:
            counts[difference.kind] += difference.count
    return Cell(
        verdict=Verdict.FAILED if failures else Verdict.PASSED,
        counts={kind: counts[kind] for kind in Kind if counts[kind]},
        scenarios=len(results),
        fired=len(fired),
        smallest=failures[0].scenario if failures else "",
    )
