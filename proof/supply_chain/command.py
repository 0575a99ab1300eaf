"""The audit: runs every check and writes `reports/audit.json`. A check that cannot run fails it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from proof.report import REPORTS, ROOT, write
from proof.supply_chain import bills_of_materials, licences, secret_scan
from proof.supply_chain.locked_packages import (
    function_locks,
    locked,
    node_licences,
    python_locks,
)
from proof.supply_chain.vulnerabilities import advisories

_FAULTS = ("vulnerabilities", "licences_refused", "secrets", "not_run")


def run() -> int:
    """Run the audit. Returns the exit status: 1 for a finding, or for a check that did not run."""
    report = _report()
    file = write("audit", report)
    console = Console(highlight=False, soft_wrap=True, markup=False)
    for key in _FAULTS:
        console.print(f"{key}: {len(report[key])}")
        for line in report[key][:20]:
            console.print(f"  {line}")
        if len(report[key]) > 20:
            console.print(f"  … and {len(report[key]) - 20} more")
    counts = ", ".join(f"{count} {name}" for name, count in report["packages"].items())
    console.print(f"packages: {counts}\nbills of materials: {len(report['sbom'])}\n{file}")
    return int(any(report[key] for key in _FAULTS))


def _report() -> dict[str, Any]:
    packages, not_run = locked(python_locks()), list[str]()
    found = advisories(packages)
    node = list(node_licences())
    refused = _or_reason("licences", lambda: _refused_licences(node), not_run)
    bills = _or_reason("sbom", lambda: bills_of_materials.write_all(REPORTS / "sbom"), not_run)
    secrets = _or_reason(
        "secrets", lambda: secret_scan.secrets_in(secret_scan.tracked_files()), not_run
    )
    return {
        "vulnerabilities": found.found,
        "licences_refused": refused,
        "packages": {"python": len(packages), "audited": len(found.audited), "node": len(node)},
        "sbom": [str(Path(bill).relative_to(ROOT)) for bill in bills],
        "secrets": secrets,
        "not_run": [*found.not_run(), *not_run],
    }


def _refused_licences(node: list[tuple[str, str]]) -> list[str]:
    here = licences.installed_licences()
    embedded_aws = licences.installed_licences(licences.EMBEDDED_AWS)
    shipped = {package.name for locks in function_locks().values() for package in locked(locks)}
    tools = sorted({*here.items(), *embedded_aws.items(), *node})
    return [*licences.refused_in_functions(shipped, here), *licences.refused_tools(tools)]


def _or_reason(name: str, check: Callable[[], list[Any]], not_run: list[str]) -> list[Any]:
    """Return a check's result; if it cannot run, add the reason to `not_run`."""
    try:
        return check()
    except OSError as error:
        not_run.append(f"{name}: {error}")
        return []
