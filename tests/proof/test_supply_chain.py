"""The audit of the supply chain, without its service of advisories."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from once.cdk.deployment_options import DeploymentConfig
from once.cdk.packaging.function_package import locks_of
from proof.supply_chain import audit
from proof.supply_chain.audit import (
    Advisories,
    Package,
    function_locks,
    locked,
    node_licences,
    python_locks,
)
from proof.supply_chain.licences import (
    EXCEPTIONS,
    FUNCTIONS,
    TOOLS,
    accepted,
    installed_licences,
    normalized,
    refused_in_functions,
    refused_tools,
)
from tests.architecture.imports import ROOT
from tests.cdk.packages import EVERY

ANSWER = json.dumps(
    {
        "dependencies": [
            {
                "name": "urllib3",
                "version": "1.26.4",
                "vulns": [
                    {
                        "id": "PYSEC-2021-108",
                        "fix_versions": ["1.26.5"],
                        "aliases": ["CVE-2021-33503"],
                        "description": "Catastrophic backtracking in the authority of a URL.",
                    }
                ],
            },
            {"name": "six", "version": "1.17.0", "vulns": []},
            {"name": "own", "skip_reason": "Dependency not found on PyPI: own (1)"},
        ],
        "fixes": [],
    }
)
"""An answer of pip-audit 2.10, shortened."""


@pytest.fixture(scope="module")
def licences() -> dict[str, str]:
    return installed_licences()


def test_every_lock_is_audited_and_those_of_the_functions_are_those_of_their_packages() -> None:
    packages = {name: locks_of(source, DeploymentConfig()) for name, source, _ in EVERY}
    assert {name: set(locks) for name, locks in function_locks().items()} == {
        name: set(locks) for name, locks in packages.items()
    }
    listed = subprocess.check_output(["git", "ls-files", "*requirements*.txt"], text=True)
    assert {path.relative_to(ROOT).as_posix() for path in python_locks()} == set(listed.split())


def test_the_licences_of_the_project_are_accepted(licences: dict[str, str]) -> None:
    shipped = {package.name for locks in function_locks().values() for package in locked(locks)}
    assert list(refused_in_functions(shipped, licences)) == []
    assert list(refused_tools([*licences.items(), *node_licences()])) == []


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("(MIT OR GPL-3.0)", True),
        ("Apache Software License; BSD License", True),
        ("MIT License; MIT No Attribution License (MIT-0)", True),
        ("MIT AND GPL-3.0", False),
        ("BSD License; GNU General Public License (GPL)", False),
        ("ISC", False),  # accepted for tools
        ("UNKNOWN", False),
        ("", False),
    ],
)
def test_a_licence_is_accepted_in_a_function_by_all_its_parts(licence: str, allowed: bool) -> None:  # noqa: FBT001
    assert accepted(licence, FUNCTIONS) == allowed
    assert list(refused_in_functions(["x"], {"x": licence})) == [
        f"x, in a function's package: {licence or 'no licence named'}" for _ in range(not allowed)
    ]


def test_an_exception_holds_for_one_licence_and_not_in_functions() -> None:
    assert FUNCTIONS < TOOLS
    assert all(reason for _, reason in EXCEPTIONS.values())
    assert list(refused_tools([("psycopg", "LGPL-3.0-only")])) == []
    assert list(refused_tools([("psycopg", "GPL-3.0")])) == ["psycopg: GPL-3.0"]
    assert list(refused_in_functions(["psycopg"], {"psycopg": "LGPL-3.0-only"})) != []
    assert list(refused_in_functions(["absent"], {})) != []


def test_a_vulnerability_is_read_and_a_package_that_was_skipped_is_not_clean() -> None:
    answer = Advisories()
    answer.add(ANSWER)
    assert answer.found == [
        {
            "package": "urllib3",
            "version": "1.26.4",
            "advisory": "PYSEC-2021-108",
            "fixed_in": ["1.26.5"],
        }
    ]
    assert answer.audited == 2
    assert answer.not_run == ["vulnerabilities: PyPI does not know own"]


def test_both_versions_of_a_package_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(audit, "_ask", lambda file, _: asked.append(file.read_text()))
    audit.advisories([Package("a", "1"), Package("b", "1"), Package("a", "2")])
    assert asked == ["a==1\nb==1\n", "a==2\n"]


def _offline(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], 1, "", "Traceback …\nConnectionError: no route")


@pytest.mark.parametrize(
    ("advice", "status", "reasons"),
    [
        (lambda packages: Advisories(audited=len(packages)), 0, []),
        (audit.advisories, 1, ["pip-audit failed: ConnectionError: no route"]),
    ],
    ids=["clean", "offline"],
)
def test_an_audit_that_could_not_ask_fails_and_says_so(
    advice: Callable[[set[Package]], Advisories],
    status: int,
    reasons: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[dict[str, list[str]]] = []
    monkeypatch.setattr(subprocess, "run", _offline)
    monkeypatch.setattr(audit, "advisories", advice)
    monkeypatch.setattr(audit, "_refused_licences", lambda _: [])
    monkeypatch.setattr(audit, "write_bills", lambda _: [])
    monkeypatch.setattr(audit, "tracked_files", list)
    monkeypatch.setattr(audit, "secrets_in", list)

    def write(_: str, report: dict[str, list[str]]) -> Path:
        written.append(report)
        return tmp_path

    monkeypatch.setattr(audit, "write", write)
    assert audit.run() == status
    assert set(written[0]["not_run"]) == {f"vulnerabilities: {reason}" for reason in reasons}


def test_the_bill_of_a_function_names_every_locked_package_and_the_library(tmp_path: Path) -> None:
    file = audit.write_function_bill(tmp_path, "payments")
    bill = json.loads(file.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "once-function-payments"
    found = {Package(normalized(c["name"]), c["version"]): c for c in bill["components"]}
    own = {package for package in found if package.name == "once-consumer"}
    assert len(own) == 1
    assert found.keys() - own == locked(function_locks()["payments"])
    assert all(_hashes(found[package]) for package in found.keys() - own)


def _hashes(component: dict[str, Any]) -> list[Any]:
    return [hashes for link in component["externalReferences"] for hashes in link["hashes"]]


def test_no_tracked_file_holds_a_secret_and_a_planted_one_is_found(tmp_path: Path) -> None:
    planted = tmp_path / "settings.py"
    planted.write_text("\nKEY = 'ghp_" + "A1b2C3d4E5f6G7h8I9" * 2 + "'\n")
    found = audit.secrets_in([*audit.tracked_files(), planted])
    assert [line.partition(": ")[0] for line in found] == [f"{planted}:2"]


def test_a_audit_that_did_not_read_every_file_fails(tmp_path: Path) -> None:
    read = tmp_path / "read.py"
    read.touch()
    with pytest.raises(OSError, match="secretlint read 1 of 2 files"):
        audit.secrets_in([read, tmp_path / "absent.py"])
