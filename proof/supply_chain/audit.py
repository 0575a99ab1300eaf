"""Audit of the supply chain: runs every check, and writes `reports/audit.json` and `reports/sbom`.

A check that cannot run fails the audit.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from proof.report import REPORTS, ROOT, write
from proof.supply_chain import licences
from proof.supply_chain.licences import normalized

RUNTIME_LOCK = ROOT / "once/cdk/packaging/requirements.txt"
FUNCTIONS = ("functions", "once/cdk/functions")
"""Folders with a folder for each function: those of the app, and those of the library."""

_LINE = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


class Package(NamedTuple):
    """One version of a package."""

    name: str
    version: str


def _run(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        command, cwd=ROOT, capture_output=True, text=True, check=False, **options
    )


def _tool(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def python_locks() -> list[Path]:
    """Return every lock file of Python packages."""
    patterns = (
        "*.txt",
        "emulator/*.txt",
        "functions/*/*.txt",
        "once/cdk/**/*.txt",
        "tests/e2e/*.txt",
        "tests/e2e/functions/*/*.txt",
    )
    return sorted(path for p in patterns for path in ROOT.glob(p) if "requirements" in path.name)


def function_locks() -> dict[str, list[Path]]:
    """Return the lock files of each function's package, by the function's name."""
    handlers = [path for folder in FUNCTIONS for path in ROOT.glob(f"{folder}/*/handler.py")]
    return {
        path.parent.name: [RUNTIME_LOCK, *path.parent.glob("requirements.txt")]
        for path in sorted(handlers)
    }


def locked(locks: Iterable[Path]) -> set[Package]:
    """Return the packages of these locks, those for other platforms and Pythons included."""
    found = (match for lock in locks for match in _LINE.findall(lock.read_text()))
    return {Package(normalized(name), version) for name, version in found}


def node_licences() -> Iterator[tuple[str, str]]:
    """Yield name and licence of each package in the lock file of npm."""
    lock = json.loads((ROOT / "package-lock.json").read_text())
    for path, entry in lock["packages"].items():
        if path:  # the empty path is the project itself
            yield path.rpartition("node_modules/")[2], entry.get("license", "")


_PIP_AUDIT = ("--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json")
_SECONDS = 600


@dataclass
class Advisories:
    """The answer for a set of packages.

    Attributes:
        found: package, version, advisory and the versions that fix it.
        audited: number of packages that the service of PyPI knew.
        not_run: why the answer is not whole.
    """

    found: list[dict[str, object]] = field(default_factory=list)
    audited: int = 0
    not_run: list[str] = field(default_factory=list)

    def add(self, answer: str) -> None:
        """Add an answer of pip-audit.

        Raises:
            ValueError: it is no JSON.
        """
        for entry in json.loads(answer)["dependencies"]:
            if "skip_reason" in entry:
                self.not_run.append(f"vulnerabilities: PyPI does not know {entry['name']}")
                continue
            self.audited += 1
            for advisory in entry["vulns"]:
                about = {"advisory": advisory["id"], "fixed_in": advisory["fix_versions"]}
                self.found.append({"package": entry["name"], "version": entry["version"]} | about)


def advisories(packages: Iterable[Package]) -> Advisories:
    """Ask for every package, also for those of other platforms and Pythons."""
    total = Advisories()
    versions = [list(same) for _, same in groupby(sorted(packages), lambda package: package.name)]
    # pip-audit reads one version of each package in one file.
    for layer in zip_longest(*versions):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.writelines(f"{each.name}=={each.version}\n" for each in layer if each)
            file.flush()
            _ask(Path(file.name), total)
    return total


def _ask(file: Path, total: Advisories) -> None:
    try:
        done = _run([_tool("pip-audit"), *_PIP_AUDIT, "--requirement", file], timeout=_SECONDS)
        total.add(done.stdout)
    except subprocess.TimeoutExpired:
        total.not_run.append(f"vulnerabilities: no answer within {_SECONDS} s")
    except ValueError:  # no JSON: the service could not be reached
        said = done.stderr.strip().splitlines()[-1:] or ["no output"]
        total.not_run.append(f"vulnerabilities: pip-audit failed: {said[0][:300]}")


CONFIG = ROOT / ".secretlintrc.json"


def tracked_files() -> list[Path]:
    """Return the files that git tracks and takes for text; secretlint reads no others.

    Raises:
        OSError: this is no working copy of git.
    """
    done = _run(["git", "grep", "-I", "--files-with-matches", "-z", "-e", ""])
    if done.returncode:
        raise OSError(f"git could not list the files: {done.stderr.strip()}")
    listed = (ROOT / name for name in done.stdout.split("\0") if name)
    return [path for path in listed if path.is_file() and path != CONFIG]  # it skips its own file


def secrets_in(files: Sequence[Path]) -> list[str]:
    """Return file, line and rule of each secret. The secret itself is never returned.

    Raises:
        OSError: secretlint failed, or did not read every file.
    """
    options: tuple[str | Path, ...] = (
        "--no-glob",
        "--no-gitignore",
        "--format",
        "json",
        "--secretlintrc",
        CONFIG,
    )
    done = _run([ROOT / "node_modules/.bin/secretlint", *options, *files])
    try:
        results = json.loads(done.stdout)
    except ValueError:
        raise OSError(f"secretlint failed: {done.stderr.strip()[-500:]}") from None
    if len(results) != len(files):
        raise OSError(f"secretlint read {len(results)} of {len(files)} files")
    return [
        f"{result['filePath'].removeprefix(f'{ROOT}/')}:{found['loc']['start']['line']}: "
        f"{found['ruleId']}"
        for result in results
        for found in result["messages"]
    ]


_PROJECT = ROOT / "pyproject.toml"
_CYCLONEDX = ("--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON")
_FUNCTION = '[project]\nname = "{name}"\nversion = "{version}"\ndescription = "A Lambda package"\n'


def write_bills(folder: Path) -> list[Path]:
    """Write the bill of the library's wheel and of each function's package.

    Raises:
        OSError: cyclonedx-py refused its input or its own output.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = _write(folder / "once-consumer.cdx.json", _PROJECT, _text_of([RUNTIME_LOCK]))
    return [library, *(write_function_bill(folder, name) for name in function_locks())]


def write_function_bill(folder: Path, name: str) -> Path:
    """Write the bill of one function's package: the library, and what its locks name."""
    version = tomllib.loads(_PROJECT.read_text())["project"]["version"]
    contents = f"once-consumer=={version}\n{_text_of(function_locks()[name])}"
    with tempfile.TemporaryDirectory() as scratch:
        described = Path(scratch) / "pyproject.toml"
        described.write_text(_FUNCTION.format(name=f"once-function-{name}", version=version))
        return _write(folder / f"function-{name}.cdx.json", described, contents)


def _text_of(locks: Iterable[Path]) -> str:
    """Return locks as one; a package that several name is the same version in each."""
    entries = (lock.read_text().replace("\\\n", " ").splitlines() for lock in locks)
    lines = {line for lines in entries for line in lines if "==" in line and line[0] != "#"}
    return "".join(f"{line}\n" for line in sorted(lines))


def _write(file: Path, project: Path, requirements: str) -> Path:
    given = ("requirements", "-", "--pyproject", project, "--output-file", file)
    done = _run([_tool("cyclonedx-py"), *given, *_CYCLONEDX], input=requirements)
    if done.returncode:
        raise OSError(f"{file.name} could not be written: {done.stderr.strip()[-500:]}")
    return file


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
    packages, node = locked(python_locks()), list(node_licences())
    found = advisories(packages)

    def result(name: str, check: Callable[[], list[Any]]) -> list[Any]:
        """Return a check's result; if it cannot run, keep the reason."""
        try:
            return check()
        except OSError as error:
            found.not_run.append(f"{name}: {error}")
            return []

    bills = result("sbom", lambda: write_bills(REPORTS / "sbom"))
    return {
        "vulnerabilities": found.found,
        "licences_refused": result("licences", lambda: _refused_licences(node)),
        "packages": {"python": len(packages), "audited": found.audited, "node": len(node)},
        "sbom": [str(Path(bill).relative_to(ROOT)) for bill in bills],
        "secrets": result("secrets", lambda: secrets_in(tracked_files())),
        "not_run": found.not_run,
    }


def _refused_licences(node: list[tuple[str, str]]) -> list[str]:
    here = licences.installed_licences()
    embedded_aws = licences.installed_licences(licences.EMBEDDED_AWS)
    shipped = {package.name for locks in function_locks().values() for package in locked(locks)}
    tools = sorted({*here.items(), *embedded_aws.items(), *node})
    return [*licences.refused_in_functions(shipped, here), *licences.refused_tools(tools)]
