"""Whether a soak shows what it is to show: nothing wrong in the end, after enough went wrong."""

from collections.abc import Mapping
from typing import Any

from demo.audit import Findings
from demo.report import FAULT_FIGURES

Figures = Mapping[str, Any]


def found(findings: Findings) -> dict[str, Any]:
    """Return what the audit found, by its keys in the report."""
    return {
        "sends": findings.sent,
        "distinct": findings.distinct,
        "deliveries": findings.deliveries,
        "effects": findings.effects,
        "charges": findings.charges,
        "emails": findings.emails,
        "quarantined": dict(findings.quarantined_by_reason),
        **{name: getattr(findings, name) for name in FAULT_FIGURES},
    }


def complaints(figures: Figures, least: Mapping[str, int]) -> list[str]:
    """Return what speaks against a run, a line each; nothing for one that shows what it should.

    Args:
        figures: of the run.
        least: how much must have happened, and gone wrong, at least.
    """
    wrong = [f"{name} is {figures[name]}, and must be 0" for name in FAULT_FIGURES if figures[name]]
    return wrong + [
        f"{name} is {figures[name]}, and less than {number} shows nothing"
        for name, number in least.items()
        if figures[name] < number
    ]
