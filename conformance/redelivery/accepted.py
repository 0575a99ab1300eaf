"""Failures that a team accepts: kept with their reason in a file of the repository; new ones fail.

A failure is known by handler, fault, kind and item, and not by its line, which moves.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from redelivery.faults import Fault
from redelivery.report import Difference, Report
from redelivery.subject import SubjectError

FILE = "redelivery-accepted.json"


@dataclass(frozen=True, slots=True, order=True)
class Accepted:
    """One accepted failure: a difference by a fault, and why it is accepted."""

    handler: str
    fault: str
    kind: str
    what: str
    reason: str = ""


def read_accepted(folder: Path) -> tuple[Accepted, ...]:
    """Return what is accepted in a project; nothing without the file.

    Raises:
        SubjectError: the file cannot be read.
    """
    file = folder / FILE
    try:
        return tuple(Accepted(**each) for each in json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError) as error:
        raise SubjectError(f"cannot read {file}: {error}") from error


def with_accepted(report: Report, accepted: Iterable[Accepted]) -> Report:
    """Return a report in which accepted failures do not count.

    Its warnings name what is accepted and was not found any more.
    """
    own = {
        replace(each, reason=""): each.reason for each in accepted if each.handler == report.handler
    }
    found: set[Accepted] = set()

    def marked(fault: Fault, difference: Difference) -> Difference:
        key = _key(report, fault, difference)
        found.add(key)
        return replace(difference, accepted=own.get(key, ""))

    results = tuple(
        replace(result, differences=tuple(marked(result.fault, d) for d in result.differences))
        if result.fired
        else result
        for result in report.results
    )
    played = {result.fault for result in results}
    gone = sorted(each for each in own if each not in found and each.fault in played)
    told = [f"accepted, and not found any more: {e.fault}: {e.kind}: {e.what}" for e in gone]
    return replace(report, results=results, warnings=(*report.warnings, *told))


def accept(report: Report, folder: Path, reason: str) -> int:
    """Add every failure of a report to the file, and return how many are new."""
    before = read_accepted(folder)
    known = {replace(each, reason="") for each in before}
    new = {
        _key(report, result.fault, difference)
        for result in report.failures
        for difference in result.differences
        if not difference.accepted
    } - known
    every = sorted([*before, *(replace(each, reason=reason) for each in new)])
    text = json.dumps([asdict(each) for each in every], indent=2)
    (folder / FILE).write_text(f"{text}\n", encoding="utf-8")
    return len(new)


def _key(report: Report, fault: Fault, difference: Difference) -> Accepted:
    return Accepted(report.handler, str(fault), str(difference.kind), difference.what)
