"""Known vulnerabilities of the locked packages, from PyPI's advisories by pip-audit.

pip-audit ends with success if the service knows none of the packages, such as behind a mirror. A
package that it skipped was not audited, and is reported as that.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from proof.supply_chain.locked_packages import Package

_OPTIONS = ("--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json")
_SECONDS = 600


@dataclass
class Advisories:
    """The answer for a set of packages.

    Attributes:
        found: package, version, advisory and the versions that fix it.
        audited: the packages that the service knew.
        unknown: the packages that it did not know.
        failures: why it could not be asked.
    """

    found: list[dict[str, object]] = field(default_factory=list)
    audited: set[Package] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)

    def add(self, answer: str) -> None:
        """Add an answer of pip-audit."""
        for entry in json.loads(answer)["dependencies"]:
            if "skip_reason" in entry:
                self.unknown.add(entry["name"])
                continue
            self.audited.add(package := Package(entry["name"], entry["version"]))
            self.found += [_finding(package, advisory) for advisory in entry["vulns"]]

    def not_run(self) -> list[str]:
        """Return the reasons why the answer is not whole."""
        reasons = list(self.failures)
        if self.unknown:
            names = ", ".join(sorted(self.unknown))
            reasons.append(f"the service of PyPI does not know {len(self.unknown)}: {names}")
        return [f"vulnerabilities: {reason}" for reason in reasons]


def advisories(packages: Iterable[Package]) -> Advisories:
    """Ask for every package, also for those of other platforms and Pythons."""
    total = Advisories()
    for layer in _layers(packages):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.writelines(f"{package.name}=={package.version}\n" for package in layer)
            file.flush()
            _ask(Path(file.name), total)
    return total


def _layers(packages: Iterable[Package]) -> Iterator[list[Package]]:
    """Yield lists with one version of each package: pip-audit reads no more in one file."""
    versions = [list(same) for _, same in groupby(sorted(packages), lambda package: package.name)]
    for index in range(max(map(len, versions), default=0)):
        yield [same[index] for same in versions if len(same) > index]


def _ask(file: Path, total: Advisories) -> None:
    tool = Path(sys.executable).with_name("pip-audit")
    command = [str(tool), *_OPTIONS, "--requirement", str(file)]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
        total.add(done.stdout)
    except subprocess.TimeoutExpired:
        total.failures.append(f"no answer within {_SECONDS} s")
    except ValueError:  # no JSON: the service could not be reached
        said = done.stderr.strip().splitlines()[-1:] or ["no output"]
        total.failures.append(f"pip-audit failed: {said[0][:300]}")


def _finding(package: Package, advisory: dict[str, object]) -> dict[str, object]:
    return {
        "package": package.name,
        "version": package.version,
        "advisory": advisory["id"],
        "fixed_in": advisory["fix_versions"],
    }
