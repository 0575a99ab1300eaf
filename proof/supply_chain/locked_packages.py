"""The lock files of the project, and the packages that they name."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from proof.report import ROOT

RUNTIME_LOCK = ROOT / "once/cdk/packaging/requirements.txt"
FUNCTIONS = ("functions", "once/cdk/functions")
"""Folders with a folder for each function: those of the app, and those of the library."""

_LINE = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_SEPARATORS = re.compile(r"[-_.]+")


class Package(NamedTuple):
    """One version of a package."""

    name: str
    version: str


def normalized(name: str) -> str:
    """Return a distribution's name as PyPI compares it."""
    return _SEPARATORS.sub("-", name).lower()


def python_locks() -> list[Path]:
    """Return every lock file of Python packages."""
    patterns = ("*.txt", "emulator/*.txt", "functions/*/*.txt", "once/cdk/**/*.txt")
    return sorted(path for p in patterns for path in ROOT.glob(p) if "requirements" in path.name)


def function_locks() -> dict[str, list[Path]]:
    """Return the lock files of each function's package, by the function's name."""
    handlers = [path for folder in FUNCTIONS for path in ROOT.glob(f"{folder}/*/handler.py")]
    return {path.parent.name: _locks_of(path.parent) for path in sorted(handlers)}


def _locks_of(folder: Path) -> list[Path]:
    own = folder / "requirements.txt"
    return [RUNTIME_LOCK, *([own] if own.exists() else [])]


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
