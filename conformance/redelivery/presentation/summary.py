"""Summary of a report: its verdict, one row for each fault, and the differences by call site."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from redelivery.faults import Fault
from redelivery.report import Difference, Kind, Report, Result


class Verdict(StrEnum):
    """The outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NONE = "no verdict"


@dataclass(frozen=True, slots=True)
class Row:
    """The scenarios of one fault.

    Attributes:
        fault: the fault.
        results: one for each of its scenarios.
        not_run: why it has no scenario; empty if it has some.
    """

    fault: Fault
    results: tuple[Result, ...]
    not_run: str = ""

    @property
    def fired(self) -> int:
        """Number of scenarios in which the fault took place."""
        return sum(result.fired for result in self.results)

    @property
    def failures(self) -> tuple[Result, ...]:
        """The scenarios that found a difference."""
        return tuple(result for result in self.results if result.fired and result.differences)

    @property
    def kinds(self) -> Mapping[Kind, int]:
        """For each kind of difference, the number of scenarios that found one."""
        found = Counter(kind for r in self.failures for kind in {d.kind for d in r.differences})
        return {kind: found[kind] for kind in Kind if found[kind]}

    @property
    def sites(self) -> tuple[str, ...]:
        """The call sites at which the fault led to a difference."""
        return tuple(dict.fromkeys(result.site for result in self.failures if result.site))


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference, and the scenarios that found it."""

    difference: Difference
    scenarios: tuple[str, ...]


def rows(report: Report) -> list[Row]:
    """Return a row for each fault that was run or has a reason not to be, in the faults' order."""
    candidates = (Row(f, report.of(f), report.not_run.get(f, "")) for f in Fault)
    return [row for row in candidates if row.results or row.fault in report.not_run]


def verdict(report: Report) -> Verdict:
    """Return the verdict; `NONE` if a control was judged wrongly or no fault took place."""
    if not report.trustworthy or not any(result.fired for result in report.results):
        return Verdict.NONE
    return Verdict.FAILED if report.failures else Verdict.PASSED


def verdict_line(report: Report) -> str:
    """Return the verdict as one sentence."""
    fired = sum(result.fired for result in report.results)
    match verdict(report):
        case Verdict.PASSED:
            faults = sum(bool(row.fired) for row in rows(report))
            ends = f"in each of {count(fired, 'scenario')} of {count(faults, 'fault')}"
            return f"PASSED: {report.handler} ends as in its clean run {ends}"
        case Verdict.FAILED:
            share = f"in {len(report.failures)} of {count(fired, 'scenario')}"
            return f"FAILED: {report.handler} ends otherwise than in its clean run {share}"
    return f"NO VERDICT: {_why_none(report)}"


def _why_none(report: Report) -> str:
    wrong = [name for name, right in report.controls.items() if not right]
    if wrong:
        return f"this run judged its own controls wrongly ({', '.join(wrong)})"
    if not report.controls:
        return "this run had no controls"
    return f"no fault took place in a run of {report.handler}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 scenario`, `2 scenarios`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def kinds_text(kinds: Mapping[Kind, int]) -> str:
    """Return how many scenarios found which kind: `2 doubled, 1 lost`."""
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())


def failing_rows(report: Report) -> str:
    """Return the faults that made a difference, on one line."""
    return "; ".join(f"{row.fault}: {kinds_text(row.kinds)}" for row in rows(report) if row.kinds)


def findings_by_site(failures: Iterable[Result]) -> dict[str, list[Finding]]:
    """Return for each call site the differences that its effects showed, each one once."""
    scenarios: dict[tuple[str, Kind, str], list[str]] = {}
    first: dict[tuple[str, Kind, str], Difference] = {}
    for result in failures:
        for difference in result.differences:
            same = (difference.site, difference.kind, difference.what)
            first.setdefault(same, difference)
            scenarios.setdefault(same, []).append(result.scenario)
    by_site: dict[str, list[Finding]] = {}
    for same in sorted(first):
        by_site.setdefault(same[0], []).append(Finding(first[same], tuple(scenarios[same])))
    return by_site
