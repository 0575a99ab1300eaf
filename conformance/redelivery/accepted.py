"""Failures that a team accepts: kept with their reason in a file of the repository; new ones fail.

A failure is known by its function (logical id and folder), handler, fault, kind and item, and not
by its line, which moves.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from redelivery.report import Difference, Report, Result
from redelivery.subject import SubjectError

FILE = "redelivery-accepted.json"
_NAMES = ("function", "handler", "fault", "kind", "what", "reason")

Failure = tuple[str, ...]
"""Function, handler, fault, kind and item."""


def read_accepted(folder: Path) -> dict[Failure, str]:
    """Return what is accepted in a project, with the reasons; nothing without the file.

    Raises:
        SubjectError: the file cannot be read.
    """
    file = folder / FILE
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        found = [tuple(str(entry[name]) for name in _NAMES) for entry in entries]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SubjectError(f"cannot read {file}: {error!r}") from error
    return {tuple(failure): reason for *failure, reason in found}


def with_accepted(report: Report, accepted: Mapping[Failure, str], folder: Path) -> Report:
    """Return a report of a project in a folder, in which accepted failures do not count.

    Its warnings name what is accepted and was not found any more.
    """
    found: set[Failure] = set()

    def marked(result: Result) -> Result:
        keys = [_key(report, result, difference, folder) for difference in result.differences]
        found.update(keys)
        pairs = zip(result.differences, keys, strict=True)
        own = tuple(replace(d, accepted=accepted.get(key, "")) for d, key in pairs)
        return replace(result, differences=own)

    results = tuple(marked(result) if result.fired else result for result in report.results)
    played = {(*_function(report, folder), str(result.fault)) for result in results}
    gone = sorted(each for each in accepted.keys() - found if each[:3] in played)
    told = [f"accepted, and not found any more: {': '.join(each[2:])}" for each in gone]
    return replace(report, results=results, warnings=(*report.warnings, *told))


def accept(report: Report, folder: Path, reason: str) -> int:
    """Add every failure of a report to the file, and return how many are new."""
    before = read_accepted(folder)
    found = {
        _key(report, result, difference, folder): reason
        for result in report.failures
        for difference in result.counted
    }
    entries = [dict(zip(_NAMES, (*key, why), strict=True)) for key, why in (found | before).items()]
    entries.sort(key=lambda entry: [*entry.values()])
    (folder / FILE).write_text(f"{json.dumps(entries, indent=2)}\n", encoding="utf-8")
    return len(entries) - len(before)


def _key(report: Report, result: Result, difference: Difference, folder: Path) -> Failure:
    found = (str(result.fault), str(difference.kind), difference.what)
    return (*_function(report, folder), *found)


def _function(report: Report, folder: Path) -> tuple[str, str]:
    """Return what tells a function from another with the same handler, and the handler.

    A package that was unpacked for the check has a folder of no importance: its name tells enough.
    """
    root, folder = report.root.resolve(), folder.resolve()
    is_known = root.is_relative_to(folder) or not report.function
    place = [os.path.relpath(root, folder).replace(os.sep, "/")] if is_known else []
    return " ".join(filter(None, [report.function, *place])), report.handler
