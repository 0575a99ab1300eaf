"""The wheel holds the library alone, and its command line says what it lacks."""

import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from tests.wheel.conftest import ROOT, Stranger


@pytest.fixture(scope="session")
def files(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="session")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_the_wheel_is_the_whole_library_and_nothing_else(files: list[str]) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "once"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    ours = {name for name in listed.stdout.split() if (ROOT / name).exists()}
    assert {name for name in files if ".dist-info/" not in name} == ours


@pytest.mark.parametrize(
    "name",
    [
        "once/py.typed",
        "once/cdk/packaging/requirements.txt",
        "once/cdk/functions/outbox_relay/handler.py",
        "once/cdk/functions/unrouted/handler.py",
    ],
)
def test_files_that_are_read_and_not_imported_are_there(files: list[str], name: str) -> None:
    assert name in files


def test_its_metadata_names_python_and_extras(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Requires-Python"]) == ("once-consumer", ">=3.11")
    assert metadata.get_all("Provides-Extra") == ["cdk", "ops", "testing"]
    required = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    names = [re.split("[<>]", text)[0] for text in required]
    assert names == ["aws-lambda-powertools", "boto3", "msgspec", "rfc8785"]


def test_the_library_comes_from_the_wheel(stranger: Stranger) -> None:
    done = stranger.run("python", "-c", "import once; print(once.__file__)")
    assert Path(done.stdout.strip()).is_relative_to(stranger.venv)


def test_the_console_script_starts(stranger: Stranger) -> None:
    done = stranger.run("once", "--help")
    assert done.returncode == 0, done.stderr
    assert "status" in done.stdout
    done = stranger.run("once", "status", "--help")
    assert done.returncode == 0, done.stderr
    assert "--service" in done.stdout


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_extra_the_console_script_names_it(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import once.ops.__main__"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "once: the command line is an extra of the library; run pip install 'once-consumer[ops]'\n"
    )


def test_other_modules_that_are_missing_keep_their_trace() -> None:
    code = "import sys; sys.modules['botocore'] = None; import once.ops.__main__"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "ModuleNotFoundError" in done.stderr
