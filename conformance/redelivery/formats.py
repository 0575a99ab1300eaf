"""Reports for programs: JSON, annotations of GitHub, JUnit's XML, SARIF."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from redelivery.faults import MEANING, Fault
from redelivery.report import Difference, Report, Result, Row, Severity, Verdict

VERSION = 1
"""Raised when a key of the JSON changes its meaning or goes; a new key does not raise it."""

_LEVELS = {
    Severity.LOST: "error",
    Severity.DOUBLED: "error",
    Severity.DEAD_LETTERED: "warning",
    Severity.POISON: "note",
}
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def json_text(reports: Sequence[Report]) -> str:
    """Return one line of JSON for each report, without control characters."""
    return "\n".join(json.dumps(document(report)) for report in reports)


def document(report: Report) -> dict[str, Any]:
    """Return a report as JSON can hold it. The page of the distribution lists its keys."""
    return {
        "version": VERSION,
        "handler": report.handler,
        "function": report.function or None,
        "seed": report.seed,
        "seconds": round(report.seconds, 1),
        "verdict": report.verdict,
        "severity": report.worst,
        "faults": [_fault(row) for row in report.rows],
        "scenarios": [_scenario(result) for result in report.results],
        "clean_course": list(report.course),
        "ignored": [{"name": name, "reason": why} for name, why in report.ignored.items()],
    }


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
    found = [{**asdict(d), "severity": result.severity(d)} for d in result.differences]
    return {
        "name": result.scenario,
        "fault": result.fault,
        "site": result.site or None,
        "fired": result.fired,
        "passed": result.passed,
        "differences": [{name: value or None for name, value in d.items()} for d in found],
        "course": list(result.course),
        "remarks": list(result.remarks),
    }


def github_text(reports: Sequence[Report]) -> str:
    """Return workflow commands: GitHub shows them at the lines of a change."""
    lines = []
    for report in reports:
        for result, found in report.findings:
            level = _LEVELS[result.severity(found)].replace("note", "notice")
            file, line = _place(report, found)
            place = f"file={file},line={line}," if line else ""
            told = f"{found.what}: {found.detail} ({result.scenario})"
            lines.append(f"::{level} {place}title=redelivery {found.kind}::{_escaped(told)}")
        kind = {Verdict.PASSED: "notice", Verdict.FAILED: "error", Verdict.NONE: "error"}
        lines.append(f"::{kind[report.verdict]}::{_escaped(report.verdict_line)}")
    return _printable("\n".join(lines))


def _place(report: Report, found: Difference) -> tuple[str, int]:
    """Return the file, as its repository names it, and the line of a difference; 0 without one."""
    file, _, line = found.site.rpartition(":")
    path, here = report.root.resolve() / file, Path.cwd()
    top = next((f for f in (here, *here.parents) if (f / ".git").exists()), here)
    named = path.relative_to(top).as_posix() if path.is_relative_to(top) else file
    return named, int(line) if line.isdecimal() else 0


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def junit_text(reports: Sequence[Report]) -> str:
    """Return JUnit's XML: a suite for each handler, a case for each fault."""
    suites = ET.Element("testsuites")
    for report in reports:
        suite = ET.SubElement(suites, "testsuite", name=report.title)
        for row in report.rows:
            case = ET.SubElement(suite, "testcase", classname=report.title, name=row.fault)
            if report.verdict is Verdict.NONE:
                ET.SubElement(case, "error", message=report.verdict_line)
            elif not row.fired:
                ET.SubElement(case, "skipped", message=row.not_run or "never took place")
            for result in row.failures[:1]:
                told = "; ".join(f"{d.kind}: {d.what} {d.detail}" for d in result.counted)
                failure = ET.SubElement(case, "failure", message=told)
                failure.text = "\n".join([result.scenario, *result.course])
        outcomes = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        for name, tag in outcomes.items():
            suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("tests", str(len(suite)))
    return _printable(ET.tostring(suites, encoding="unicode"))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def sarif_text(reports: Sequence[Report]) -> str:
    """Return SARIF 2.1.0, for the code scanning of GitHub and others."""
    results = [_sarif(report, *each) for report in reports for each in report.findings]
    rules = [{"id": fault, "shortDescription": {"text": MEANING[fault]}} for fault in Fault]
    driver = {"name": "redelivery", "rules": rules}
    runs = [{"tool": {"driver": driver}, "results": results}]
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": runs})


def _sarif(report: Report, result: Result, found: Difference) -> dict[str, Any]:
    told = f"{report.title}: {found.kind}: {found.what}: {found.detail} ({result.scenario})"
    file, line = _place(report, found)
    located = {"artifactLocation": {"uri": file}, "region": {"startLine": line}}
    return {
        "ruleId": result.fault,
        "level": _LEVELS[result.severity(found)],
        "message": {"text": told},
        "locations": [{"physicalLocation": located}] if line else [],
    }


FORMATS = {"json": json_text, "github": github_text, "junit": junit_text, "sarif": sarif_text}
