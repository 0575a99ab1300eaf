"""The kit finds the planted bug of each handler, at the call that makes the difference."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from redelivery import Fault, Kind, Report, check
from tests.conformance.handlers.planted_bugs import FRESH_CHARGE_KEY, PLANTED, PlantedBug


def findings(report: Report, fault: Fault, root: Path) -> Iterator[tuple[Kind, str]]:
    """Yield kind and call of each difference that a fault made."""
    for result in report.of(fault):
        for difference in result.differences if result.fired else ():
            yield difference.kind, call_at(difference.site, root)


def call_at(site: str, root: Path) -> str:
    """Return the name of the outermost method that is called at `file:line`; empty if none."""
    path, _, line = site.rpartition(":")
    if not path:
        return ""
    nodes = ast.walk(ast.parse((root / path).read_text()))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    spans = [call for call in calls if call.lineno <= int(line) <= (call.end_lineno or 0)]
    names = [call.func.attr for call in spans if isinstance(call.func, ast.Attribute)]
    return names[0] if names else ""


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: str(bug.subject.handler))
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    report = check(bug.subject, only=[*bug.found_by, *bug.harmless])
    for fault, kind in bug.found_by.items():
        assert (kind, bug.call) in set(findings(report, fault, bug.subject.root)), fault
    for fault in bug.harmless:
        assert [(r.scenario, r.differences) for r in report.of(fault) if r.differences] == []
        assert any(result.passed for result in report.of(fault)), fault


def test_every_fault_finds_a_planted_bug() -> None:
    assert {fault for bug in PLANTED for fault in bug.found_by} == set(Fault)


def test_the_same_seed_gives_the_same_results() -> None:
    subject, faults = FRESH_CHARGE_KEY.subject, [Fault.IN_PARALLEL]
    first, second, other = (check(subject, seed=n, only=faults).results for n in (7, 7, 8))
    assert first == second
    assert first != other  # other interleavings of the same calls
