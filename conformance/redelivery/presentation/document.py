"""Report for programs: a JSON document. The page of the distribution lists its keys."""

import json
from typing import Any

from redelivery.faults import MEANING
from redelivery.presentation.summary import Row, rows, verdict
from redelivery.report import Difference, Report, Result

VERSION = 1
"""Raised when a key changes its meaning or goes; a new key does not raise it."""


def document(report: Report) -> dict[str, Any]:
    """Return a report as JSON can hold it."""
    return {
        "version": VERSION,
        "handler": report.handler,
        "seed": report.seed,
        "seconds": round(report.seconds, 1),
        "verdict": verdict(report),
        "faults": [_fault(row) for row in rows(report)],
        "scenarios": [_scenario(result) for result in report.results],
        "clean_course": list(report.course),
        "ignored": [{"name": name, "reason": why} for name, why in report.ignored.items()],
        "controls": [{"name": name, "right": right} for name, right in report.controls.items()],
    }


def json_text(report: Report) -> str:
    """Return a report as one line of JSON, without control characters."""
    return json.dumps(document(report))


def _fault(row: Row) -> dict[str, Any]:
    return {
        "name": row.fault,
        "meaning": MEANING[row.fault],
        "scenarios": len(row.results),
        "fired": row.fired,
        "failed": len(row.failures),
        "kinds": [{"kind": kind, "scenarios": number} for kind, number in row.kinds.items()],
        "not_run": row.not_run or None,
    }


def _scenario(result: Result) -> dict[str, Any]:
    return {
        "name": result.scenario,
        "fault": result.fault,
        "site": result.site or None,
        "fired": result.fired,
        "passed": result.passed,
        "differences": [_difference(difference) for difference in result.differences],
        "course": list(result.course),
        "remarks": list(result.remarks),
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "kind": difference.kind,
        "what": difference.what,
        "count": difference.count,
        "site": difference.site or None,
        "detail": difference.detail,
    }
