"""The wheel, installed into a new virtual environment, and a copy of an app that uses it.

What the wheel needs, and no more, is in the environment before as links to the packages that run
these tests: to unpack them again takes a minute. `pytest -s tests/wheel` prints what steps take.
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
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from emulator.cdk_cli import bootstrap
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from proof.supply_chain import release_wheels

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

    def shell(self, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a line of a page in the folder."""
        return self._run(["sh", "-c", command], **variables)

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
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of a release, by their distributions."""
    with step("wheels built"):
        built = release_wheels.build(tmp_path_factory.mktemp("dist"))
    return {wheel.name.partition("-")[0]: wheel for wheel in built}


@pytest.fixture(scope="session")
def wheel(wheels: dict[str, Path]) -> Path:
    return wheels["once_consumer"]


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
        _make_venv(author.venv, copy, "ops")
        _pip(*_into(author.venv), f"{copy}[ops]", env=_locked(home))
    with step("once new service"):
        done = author.run("once", "new", "service", NAME)
        assert done.returncode == 0, done.stderr
    copy.unlink()
    shutil.rmtree(author.venv)
    with step("environment made"):
        _make_venv(home / "venv", wheel, "cdk,ops,testing", "pytest", "cryptography", "psutil")
    return Installation(home / "venv", folder)


@pytest.fixture(scope="session")
def service(written: Installation) -> Installation:
    """The written service, which has installed itself with `make install`."""
    with step("make install"):
        done = written.make("install", **_locked(written.folder.parent))
        assert done.returncode == 0, done.stdout + done.stderr
    _share_wheels(written.folder)
    return written


@pytest.fixture(scope="session")
def local_service(
    service: Installation, wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    """A copy of the written service, with the package of `once local` in its environment."""
    _pip(*_into(service.venv), "--no-deps", str(wheels["once_local"]))
    folder = tmp_path_factory.mktemp("first-day") / NAME
    shutil.copytree(service.folder, folder, symlinks=True)
    return Installation(service.venv, folder)


@pytest.fixture(scope="session")
def installation(service: Installation, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A copy of the app of the pages, in the environment that the written service installed."""
    home = tmp_path_factory.mktemp("installation")
    shutil.copytree(APP, home / "app", ignore=shutil.ignore_patterns("__pycache__"))
    _share_wheels(home / "app")
    return Installation(service.venv, home / "app")


@pytest.fixture(scope="session")
def account() -> Iterator[EmbeddedAws]:
    """An embedded AWS that is bootstrapped."""
    with embedded_aws() as aws:
        with step("account bootstrapped"):
            bootstrap(aws)
        yield aws


def _share_wheels(app: Path) -> None:
    """Let an app find the wheels of its packages where those of this repository's packages are."""
    shared = ROOT / ".cache" / "site"
    shared.mkdir(parents=True, exist_ok=True)
    (app / ".cache").mkdir()
    (app / ".cache" / "site").symlink_to(shared)


def _make_venv(venv: Path, wheel: Path, extras: str, *others: str) -> None:
    """Make a virtual environment with what the wheel and others need; the wheel is left out."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    [target] = venv.glob("lib/python3*/site-packages")
    [once] = distributions(path=[str(wheel)])
    for needed in _closure(once, [f"{once.name}[{extras}]", *others]):
        tops = {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}
        for top in tops:
            source = Path(str(needed.locate_file(top)))
            if source.is_dir():  # with its bytecode
                shutil.copytree(source, target / top, copy_function=_link, dirs_exist_ok=True)
            else:
                _link(source, target / top)


def _closure(once: Distribution, wanted: list[str]) -> Iterator[Distribution]:
    """Yield the installed distributions that requirements lead to, as their metadata says."""
    seen: dict[str, set[str]] = {}
    todo = [Requirement(each) for each in wanted]
    while todo:
        requirement = todo.pop()
        name = requirement.name
        found = once if name == once.name else distribution(name)
        if found is not once and name not in seen:
            yield found
        for extra in {"", *requirement.extras} - seen.setdefault(name, set()):
            seen[name].add(extra)
            every = map(Requirement, found.requires or ())
            todo += [r for r in every if not r.marker or r.marker.evaluate({"extra": extra})]


def _link(source: str | Path, target: str | Path) -> None:
    if Path(target).exists():  # a folder that two distributions share
        return
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)


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
