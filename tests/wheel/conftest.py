"""The wheel, installed into an empty virtual environment, and a copy of an app that uses it.

Each step takes seconds: `pytest -s tests/wheel` prints them.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulator.cdk_cli import bootstrap
from emulator.embedded_aws import EmbeddedAws, embedded_aws

ROOT = Path(__file__).resolve().parents[2]
APP = Path(__file__).resolve().parent / "app"
LOCKED = re.compile(r"^[\w.-]+==[^ \\]+( ;[^\\]+)?", re.MULTILINE)


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheel, and the folder of an app."""

    venv: Path
    folder: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the virtual environment in the folder."""
        command = [str(self.venv / "bin" / program), *arguments]
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )


@contextmanager
def step(name: str) -> Iterator[None]:
    """Print a step and the seconds it took."""
    began = time.monotonic()
    yield
    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    with step("wheel built"):
        build_wheel(ROOT, folder)
    [built] = folder.iterdir()
    return built


@pytest.fixture(scope="session")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel with its extras, in the locked versions, and a copy of the app."""
    home = tmp_path_factory.mktemp("installation")
    venv = home / "venv"
    with step("virtual environment made"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    versions = LOCKED.finditer((ROOT / "requirements-dev.txt").read_text())
    # The wheel decides what is installed, and the lock in which version.
    constraints = home / "constraints.txt"
    constraints.write_text("".join(f"{version[0].strip()}\n" for version in versions))
    with step("wheel installed with its extras"):
        options = ("--no-compile", "--constraint", str(constraints))
        wanted = (f"{wheel}[cdk,ops,testing]", "pytest")
        _pip("--python", str(venv / "bin" / "python"), "install", *options, *wanted)
    shutil.copytree(APP, home / "app", ignore=shutil.ignore_patterns("__pycache__"))
    return Installation(venv, home / "app")


@pytest.fixture(scope="session")
def account() -> Iterator[EmbeddedAws]:
    """An embedded AWS that is bootstrapped."""
    with embedded_aws() as aws:
        with step("account bootstrapped"):
            bootstrap(aws)
        yield aws


def build_wheel(source: Path, folder: Path) -> None:
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    _pip("wheel", *options, str(source))


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--no-input", *arguments], check=True)
