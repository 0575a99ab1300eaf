"""The kit as a distribution: what its wheel has, and that it says what it needs."""

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message

import pytest

from tests.architecture.imports import ROOT

KIT = ROOT / "conformance"
GIVEN = {"botocore": "boto3", "urllib3": "boto3"}
"""Modules that a dependency brings."""
OPTIONAL = {"httpx"}
"""Intercepted only if the handler's environment has it."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("dist")
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    command = [sys.executable, "-m", "pip", "--quiet", "--no-input", "wheel", *options, str(KIT)]
    subprocess.run(command, check=True)
    [built] = folder.iterdir()
    with zipfile.ZipFile(built) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return message_from_bytes(_about(wheel, "METADATA"))


def _about(wheel: zipfile.ZipFile, name: str) -> bytes:
    [path] = (path for path in wheel.namelist() if path.endswith(f".dist-info/{name}"))
    return wheel.read(path)


def test_the_wheel_is_the_whole_kit_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "redelivery"]
    listed = subprocess.check_output(command, cwd=KIT, text=True).split()
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == {name for name in listed if (KIT / name).exists()}
    assert found >= {"redelivery/py.typed", "redelivery/controls/get_then_put.py"}


def test_its_metadata_has_the_page_the_command_and_the_plugin(
    wheel: zipfile.ZipFile, metadata: Message
) -> None:
    assert (metadata["Name"], metadata["Requires-Python"]) == ("pytest-redelivery", ">=3.11")
    assert metadata.get_payload(decode=True) == (KIT / "README.md").read_bytes()
    entries = _about(wheel, "entry_points.txt").decode().split("\n\n")
    assert [entry.strip() for entry in entries] == [
        "[console_scripts]\nredelivery = redelivery.command:main",
        "[pytest11]\nredelivery = redelivery.pytest_plugin",
    ]


def imported() -> set[str]:
    """Return the top-level packages that the kit's sources import."""
    return {
        name.partition(".")[0]
        for path in KIT.glob("redelivery/**/*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _names(node)
    }


def _names(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
    return []


def test_its_dependencies_are_what_it_imports(metadata: Message) -> None:
    required = metadata.get_all("Requires-Dist", [])
    names = {re.split(r"[<>=\[]", text)[0].replace("-", "_") for text in required}
    used = imported() - sys.stdlib_module_names - OPTIONAL - {"redelivery"}
    assert {GIVEN.get(name, name) for name in used} == names
