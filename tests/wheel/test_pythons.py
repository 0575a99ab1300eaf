"""The library, its constructs and its fakes under each Python that Lambda offers and that is here.

The packages are those of the environment that runs the tests, which are pure Python but for a few.
These few are installed once for each Python, from the same lock, into `.cache/pythons`.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

import pytest

from once.cdk.deployment_options import KNOWN_PYTHONS
from once.cdk.packaging.function_package import build_once, digest
from tests.architecture.imports import ROOT

OTHERS = [minor for minor in KNOWN_PYTHONS if minor != sys.version_info.minor]
COMPILED = ("cffi", "hypothesis", "markupsafe", "msgspec", "pydantic-core", "pyyaml", "regex")
CACHE = ROOT / ".cache" / "pythons"
LOCK = ROOT / "requirements-dev.txt"
KEEP_SECONDS = 30 * 24 * 60 * 60.0
TESTS = (
    *("tests/once/test_transaction.py", "tests/once/events/test_claim_check.py"),
    "tests/cdk/test_claim_check.py",
)
"""Transactions, events from a publisher to a consumer against the fakes, and a synthesis."""

_RUN = "import sys; print(*sys.version_info[:2], sep='.')"


@cache
def interpreter(version: str) -> str | None:
    """Return the program of a Python of this machine: on the PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}*/bin/python"))]
    for program in filter(None, named):
        done = subprocess.run([program, "-c", _RUN], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return program
    return None


def compiled_for(version: str) -> Path:
    """Return a folder with the compiled packages for a Python."""
    entries = re.split(r"\n(?=[a-z0-9])", LOCK.read_text())
    names = ("time-machine", *COMPILED)
    wanted = "\n".join(e for e in entries if re.split(r"[=\[]", e, maxsplit=1)[0] in names)
    folder = CACHE / f"{version}-{digest([wanted.encode()])}"
    return build_once(
        folder, lambda made: install(made, wanted, version), keep_seconds=KEEP_SECONDS
    )


def install(folder: Path, wanted: str, version: str) -> None:
    lock = folder / "lock.txt"
    lock.write_text(wanted)
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes")
    target = ("--only-binary=:all:", "--implementation", "cp", "--python-version", version)
    command = [sys.executable, "-m", "pip", "install", *options, *target]
    subprocess.run([*command, "--target", str(folder), "-r", str(lock)], check=True)


def test_the_library_works_under_the_newest_python_of_the_machine() -> None:
    # A version between the oldest, of which these tests are, and the newest is not tried.
    versions = [f"3.{minor}" for minor in sorted(OTHERS, reverse=True)]
    found = ((version, interpreter(version)) for version in versions)
    version, program = next((each for each in found if each[1]), ("", None))
    if program is None:
        pytest.skip(f"none of Python {', '.join(versions)} is on this machine: none was tried")
    places = (compiled_for(version), ROOT, ROOT / "conformance", sysconfig.get_path("purelib"))
    done = subprocess.run(
        [program, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
