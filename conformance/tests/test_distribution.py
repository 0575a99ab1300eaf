"""The distribution: its wheel and what it needs, and its page, whose quickstart runs literally."""

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import fields, replace
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from redelivery import MEANING, Fault, Kind, Subject, Table, check
from redelivery.command import ExitCode, app
from redelivery.formats import document
from redelivery.project import subject_named

from .support import FAILED, KIT

GIVEN = {"botocore": "boto3", "urllib3": "boto3", "yaml": "pyyaml"}
"""Modules that a dependency of another name brings."""
FOR_MOTO = {"py_partiql_parser"}
"""Modules that moto imports if it meets PartiQL."""
OPTIONAL = {"httpx"}
"""Intercepted only if the handler's environment has it. What extras bring is required of them."""


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
    assert found >= {"redelivery/py.typed", "redelivery/pytest_plugin.py"}


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


def modules(source: str) -> Iterator[str]:
    """Yield the modules that a source imports, which has no relative imports."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(name)):
                yield name


def test_its_dependencies_are_what_it_imports(metadata: Message) -> None:
    required = metadata.get_all("Requires-Dist", [])
    names = {re.split(r"[<>=\[]", text)[0].replace("-", "_") for text in required}
    imported = {
        name.partition(".")[0]
        for path in KIT.glob("redelivery/**/*.py")
        for name in modules(path.read_text())
    }
    used = imported - sys.stdlib_module_names - OPTIONAL - {"redelivery"}
    assert {GIVEN.get(name, name) for name in used} == names - FOR_MOTO


# The page of the distribution: its quickstart runs literally, and its tables are complete.


PAGE = (KIT / "README.md").read_text()
QUICKSTART = PAGE.partition("## Quickstart\n")[2].partition("\n## ")[0]
FILE = re.compile(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"```sh\n(.*?)```", re.DOTALL)
OUTPUT = re.compile(r"```text\n(.*?)```", re.DOTALL)
EXPECTED_CODES = {"redelivery": ExitCode.DIFFERENCE, "pytest": 0}


def section(heading: str) -> str:
    return re.split(r"^## ", PAGE.partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]


def first_cells(text: str) -> list[str]:
    """Return the first cell of each row of the tables in a text, without heading rows."""
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [re.split(r"(?<!\\)\|", row)[1].strip() for row in rows]


def pattern(shown: str) -> str:
    """Return a pattern for a command's output, in which `…` stands for a part, or any lines."""
    return "".join(map(_of_line, shown.splitlines()))


def _of_line(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*?"
    words = [re.escape(word) for word in line.split()]
    if line.split(" ")[0] in set(Fault):  # a row: how many scenarios there are may change
        words = [re.sub(r"^\d+$", r"\\d+", word) for word in words]
    return r"\s*" + r"[ ]+".join(words).replace("…", ".*") + r"[ ]*\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quickstart")
    for name, content in FILE.findall(QUICKSTART):
        (folder / name).write_text(content)
    return folder


def run_in(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(KIT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "shown"),
    [*zip(COMMAND.findall(QUICKSTART)[1:], OUTPUT.findall(QUICKSTART), strict=True)],
    ids=lambda text: text.split()[0],
)
def test_a_command_of_the_quickstart_prints_what_is_shown(
    folder: Path, command: str, shown: str
) -> None:
    done = run_in(folder, command)
    assert re.search(pattern(shown), done.stdout), done.stdout + done.stderr
    assert done.returncode == EXPECTED_CODES[command.split()[0]]


def test_the_example_with_a_store_finds_the_counter_that_counts_twice(
    tmp_path: Path,
) -> None:
    (tmp_path / "counter.py").write_text(
        "import json, os, redis\n"
        "counters = redis.Redis(unix_socket_path=os.environ['REDIS_SOCKET'])\n"
        "def handler(event, context):\n"
        "    for record in event['Records']:\n"
        "        counters.incr(json.loads(record['body'])['order_id'])\n"
    )
    [example] = re.findall(r"```python\n(import redis\n.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    subject: Subject = names["COUNTERS"]
    try:
        report = check(replace(subject, root=tmp_path), replay="dies-after@1.1")
    finally:
        names["server"].shutdown()
    [result] = report.results
    assert [difference.kind for difference in result.differences] == [Kind.DOUBLED]


def test_every_option_is_listed_once() -> None:
    parameters = [p for command in app.commands.values() for p in command.params]
    options = {option for each in parameters for option in each.opts if option.startswith("--")}
    listed = re.findall(r"--[\w-]+", " ".join(first_cells(section("Options"))))
    assert sorted(listed) == sorted(options)


def test_the_entry_of_a_project_is_a_subject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [entry] = re.findall(r"```toml\n(.*?)```", section("Project"), re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(entry)
    (tmp_path / "stock.json").write_text('[{"sku": "apple", "available": 1.5}]')
    monkeypatch.chdir(tmp_path)
    subject = subject_named("orders", {})
    assert subject.events == (tmp_path / "order.json",)
    assert subject.tables[1] == Table("stock", "sku", items=[{"sku": "apple", "available": 1.5}])
    assert subject.answers[0].body == {"id": "ch_1"}


def test_every_field_is_an_option_or_listed() -> None:
    named = {"handler", "events", "environment", "tables", "queues", "topics", "buckets"}
    cells = " ".join(first_cells(section("Options")))
    listed = {field for field in re.findall(r"`(\w+)`", cells) if not field.isupper()}
    assert {field.name for field in fields(Subject)} == listed | named | {"key", "root", "skip"}


def test_the_faults_are_those_of_the_kit() -> None:
    rows = [f"| `{fault}` | {meaning} |" for fault, meaning in MEANING.items()]
    assert [line for line in section("Faults").splitlines() if line.startswith("| `")] == rows


def test_the_exit_codes_are_those_of_the_command() -> None:
    codes = re.findall(r"^\| (\d) \|", section("In CI"), re.MULTILINE)
    assert codes == [str(int(code)) for code in ExitCode]


def keys(value: Any, path: str = "") -> set[str]:
    """Return the paths of a JSON document's values: `faults[].kinds[].kind`."""
    if isinstance(value, dict):
        inside = {(f"{path}.{key}" if path else key): part for key, part in value.items()}
        return {found for place, part in inside.items() for found in keys(part, place)}
    if isinstance(value, list):
        return {found for part in value for found in keys(part, f"{path}[]")}
    return {path}


def test_the_keys_of_the_json_document_are_all_listed() -> None:
    cells = " ".join(first_cells(PAGE.partition("### JSON\n")[2]))
    assert keys(document(FAILED)) == set(re.findall(r"`([^`]+)`", cells))
