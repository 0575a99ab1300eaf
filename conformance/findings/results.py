"""The results of checks: as JSON, and as the table of `README.md`."""

import datetime as dt
import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

from findings.handlers import PublicHandler
from redelivery import Report, Result

Outcome = Mapping[str, Any]
"""What the check of one handler found, as `results.json` holds it."""

_VERSIONS = ("aws_lambda_powertools", "boto3", "botocore", "moto", "pytest-redelivery")
_HEAD = (
    "| handler | commit | scenarios | found in | faults without a difference |",
    "|---|---|---|---|---|",
)


def outcome(handler: PublicHandler, report: Report) -> Outcome:
    """Summarise a report by fault, with the shortest scenario that made a difference."""
    return {
        "name": handler.name,
        "repository": handler.repository,
        "commit": handler.commit,
        "path": handler.path,
        "fired": sum(result.fired for result in report.results),
        "failed": len(report.failures),
        "clean": _faults(result for result in report.results if result.passed),
        "findings": list(_findings(report)),
        "remarks": list(dict.fromkeys(text for r in report.results for text in r.remarks)),
        "not_run": {str(fault): reason for fault, reason in report.not_run.items()},
        "ignored": dict(report.ignored),
    }


def _findings(report: Report) -> Iterator[dict[str, Any]]:
    for fault in _faults(report.failures):
        failures = [result for result in report.failures if result.fault == fault]
        shortest, kinds = failures[0], {d.kind for f in failures for d in f.differences}
        yield {
            "fault": fault,
            "kinds": sorted(map(str, kinds)),
            "scenarios": len(failures),
            "example": shortest.scenario,
            "site": shortest.site or next((d.site for d in shortest.differences if d.site), ""),
            "differences": [d.detail for d in shortest.differences],
        }


def _faults(results: Iterable[Result]) -> list[str]:
    return sorted({str(result.fault) for result in results})


def document(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return outcomes with the day of the run and the versions that made them."""
    versions = {name: version(name) for name in _VERSIONS}
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), **versions},
        "handlers": list(outcomes),
    }


def table(outcomes: Iterable[Outcome]) -> str:
    """Return outcomes as a Markdown table."""
    return "\n".join([*_HEAD, *map(_row, outcomes)]) + "\n"


def _row(found: Outcome) -> str:
    url = f"https://github.com/{found['repository']}/blob/{found['commit']}/{found['path']}"
    faults: dict[str, list[str]] = {}
    for finding in found["findings"]:
        for kind in finding["kinds"]:
            faults.setdefault(kind, []).append(finding["fault"])
    failing = {finding["fault"] for finding in found["findings"]}
    by_kind = [f"**{kind}**: {', '.join(names)}" for kind, names in sorted(faults.items())]
    cells = (
        f"[{found['name']}]({url})",
        f"`{found['commit'][:12]}`",
        f"{found['failed']} of {found['fired']}",
        "<br>".join(by_kind) or "nothing",
        ", ".join(fault for fault in found["clean"] if fault not in failing) or "none",
    )
    return f"| {' | '.join(cells)} |"
