"""The results of checks, as JSON can hold them."""

import datetime as dt
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from findings.public_handler import PublicHandler
from redelivery import Report, Result

_VERSIONS = ("aws_lambda_powertools", "boto3", "botocore", "moto", "pytest-redelivery")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault that made a difference.

    Attributes:
        fault: the fault.
        kinds: the kinds of difference, in the order of the kit's enumeration.
        scenarios: how many scenarios of the fault made a difference.
        example: the shortest of them, by name. `redelivery check --replay` tells it.
        site: the call site of that scenario's fault, or else of its first difference.
        differences: what that scenario's differences say.
    """

    fault: str
    kinds: tuple[str, ...]
    scenarios: int
    example: str
    site: str
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of the check of one handler.

    Attributes:
        name, repository, commit, path: as the public handler has them.
        trustworthy: whether the kit judged its own controls rightly.
        fired: in how many scenarios the fault took place.
        failed: how many of them made a difference.
        clean: faults with a scenario that made none.
        findings: the others.
        remarks, not_run, ignored: as in the report.
    """

    name: str
    repository: str
    commit: str
    path: str
    trustworthy: bool
    fired: int
    failed: int
    clean: tuple[str, ...]
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]
    not_run: dict[str, str]
    ignored: dict[str, str]


def outcome(handler: PublicHandler, report: Report) -> Outcome:
    """Summarise a report by fault."""
    return Outcome(
        name=handler.name,
        repository=handler.repository,
        commit=handler.commit,
        path=handler.path,
        trustworthy=report.trustworthy,
        fired=sum(result.fired for result in report.results),
        failed=len(report.failures),
        clean=_faults(result for result in report.results if result.passed),
        findings=tuple(_findings(report)),
        remarks=tuple(dict.fromkeys(text for r in report.results for text in r.remarks)),
        not_run={str(fault): reason for fault, reason in report.not_run.items()},
        ignored=dict(report.ignored),
    )


def _findings(report: Report) -> Iterable[Finding]:
    for fault in _faults(report.failures):
        failures = [result for result in report.failures if result.fault == fault]
        shortest, kinds = failures[0], {d.kind for f in failures for d in f.differences}
        yield Finding(
            fault=fault,
            kinds=tuple(sorted(map(str, kinds))),
            scenarios=len(failures),
            example=shortest.scenario,
            site=shortest.site or next((d.site for d in shortest.differences if d.site), ""),
            differences=tuple(d.detail for d in shortest.differences),
        )


def _faults(results: Iterable[Result]) -> tuple[str, ...]:
    return tuple(sorted({str(result.fault) for result in results}))


def document(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return outcomes with the day of the run and the versions that made them."""
    versions = {name: version(name) for name in _VERSIONS}
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), **versions},
        "handlers": [asdict(one) for one in outcomes],
    }
