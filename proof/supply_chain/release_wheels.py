"""The wheels of a release, reproducible, and in the version that its tag names."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from proof.report import ROOT

PROJECTS = (ROOT, *sorted(file.parent for file in ROOT.glob("*/pyproject.toml")))
_DATE = "946684800"
"""2000-01-01, as seconds: the time of every file in a wheel, whenever it is built."""


def build(folder: Path, tag: str = "") -> list[Path]:
    """Build the wheel of each distribution into an empty folder.

    Args:
        folder: the folder; it must not hold anything yet.
        tag: `v` and the version that all must have; empty for no release.

    Raises:
        ValueError: the tag is not that of every version, or the folder is not empty.
        OSError: a wheel could not be built.
    """
    check_tag(tag)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; delete it, so that nothing old is released")
    for project in PROJECTS:
        _build(project, folder)
    return sorted(folder.glob("*.whl"))


def check_tag(tag: str) -> None:
    """Raise `ValueError` unless the tag, if there is one, names the version of every wheel."""
    for project in PROJECTS:
        described = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        if tag and tag != f"v{described['version']}":
            raise ValueError(
                f"the tag {tag} is not v{described['version']}, the version of "
                f"{described['name']}; set the version in its pyproject.toml, commit, "
                "and tag that commit"
            )


def _build(project: Path, folder: Path) -> None:
    options = ("--quiet", "--no-input", "--no-deps", "--no-build-isolation", "--wheel-dir")
    command = [sys.executable, "-m", "pip", "wheel", *options, str(folder), str(project)]
    done = subprocess.run(  # noqa: S603
        command, env=_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(f"the wheel of {project} could not be built: {done.stderr.strip()[-500:]}")


def _environment() -> dict[str, str]:
    return {**os.environ, "SOURCE_DATE_EPOCH": _DATE}
