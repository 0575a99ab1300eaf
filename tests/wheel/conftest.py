"""The wheel, installed into an empty virtual environment, and a copy of an app that uses it.

Each step takes seconds: `pytest -s tests/wheel` prints them.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulator.cdk_cli import bootstrap
from emulator.embedded_aws import EmbeddedAws, embedded_aws

ROOT = Path(__file__).resolve().parents[2]
APP = Path(__file__).resolve().parent / "app"
NAME = "box-office"
LOCKED = re.compile(r"^[\w.-]+==[^ \\]+( ;[^\\]+)?", re.MULTILINE)


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheel, and the folder of an app."""

    venv: Path
    folder: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the virtual environment in the folder."""
        return self._run([str(self.venv / "bin" / program), *arguments])

    def make(self, *targets: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run targets of the folder's Makefile, with the virtual environment as the active one."""
        return self._run(["make", *targets], **variables)

    def _run(self, command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env["PATH"] = os.pathsep.join([str(self.venv / "bin"), env["PATH"]])
        return subprocess.run(
            command,
            cwd=self.folder,
            env=env | variables,
            capture_output=True,
            text=True,
            check=False,
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
def written(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A folder in which `once new service` of the wheel was run, and its new environment.

    The command comes from another environment, which is gone then, as is the wheel.
    """
    home = tmp_path_factory.mktemp("service")
    author, folder = Installation(home / "author", home / NAME), home / NAME
    folder.mkdir()
    copy = home / wheel.name
    shutil.copy(wheel, copy)
    with step("wheel installed with the command line"):
        _make_venv(author.venv)
        _pip(*_into(author.venv), f"{copy}[ops]", env=_locked(home))
    with step("once new service"):
        done = author.run("once", "new", "service", NAME)
        assert done.returncode == 0, done.stderr
    copy.unlink()
    shutil.rmtree(author.venv)
    _make_venv(home / "venv", pip=True)
    return Installation(home / "venv", folder)


@pytest.fixture(scope="session")
def service(written: Installation) -> Installation:
    """The written service, which has installed itself with `make install`."""
    with step("make install"):
        done = written.make("install", **_locked(written.folder.parent))
        assert done.returncode == 0, done.stdout + done.stderr
    return written


@pytest.fixture(scope="session")
def installation(service: Installation, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A copy of the app of the pages, in the environment that the written service installed."""
    home = tmp_path_factory.mktemp("installation")
    shutil.copytree(APP, home / "app", ignore=shutil.ignore_patterns("__pycache__"))
    cache = service.folder / ".cache"  # both apps need the same wheels in their packages
    cache.mkdir(exist_ok=True)
    (home / "app" / ".cache").symlink_to(cache)
    return Installation(service.venv, home / "app")


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


def _make_venv(venv: Path, *, pip: bool = False) -> None:
    options = () if pip else ("--without-pip",)
    subprocess.run([sys.executable, "-m", "venv", *options, str(venv)], check=True)


def _into(venv: Path) -> tuple[str, ...]:
    return ("--python", str(venv / "bin" / "python"), "install")


def _locked(home: Path) -> dict[str, str]:
    """Return variables of pip: the wheel decides what is installed, the lock in which version."""
    versions = LOCKED.finditer((ROOT / "requirements-dev.txt").read_text())
    constraints = home / "constraints.txt"
    constraints.write_text("".join(f"{version[0].strip()}\n" for version in versions))
    return {"PIP_CONSTRAINT": str(constraints), "PIP_NO_COMPILE": "1", "PIP_QUIET": "1"}


def _pip(*arguments: str, env: Mapping[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--no-input", *arguments]
    subprocess.run(command, check=True, env=os.environ | dict(env or {}))
