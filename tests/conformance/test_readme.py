"""The page of the distribution: its quickstart runs literally, and its tables are complete."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from redelivery import MEANING, Fault, Kind, Subject, check
from redelivery.command import ExitCode, app
from redelivery.presentation import LIMITS, document
from tests.architecture.imports import ROOT
from tests.conformance.reports import FAILED

PAGE = (ROOT / "conformance" / "README.md").read_text()
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


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "conformance")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_quickstart_has_its_files(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        *("app.py", "order.json", "fixed.py", "test_fixed.py")
    }


@pytest.mark.parametrize(
    ("command", "shown"),
    [*zip(COMMAND.findall(QUICKSTART)[1:], OUTPUT.findall(QUICKSTART), strict=True)],
    ids=lambda text: text.split()[0],
)
def test_a_command_of_the_quickstart_prints_what_is_shown(
    folder: Path, command: str, shown: str
) -> None:
    done = run(folder, command)
    assert re.search(pattern(shown), done.stdout), done.stdout + done.stderr
    assert done.returncode == EXPECTED_CODES[command.split()[0]]


def test_with_its_key_the_corrected_handler_fails_as_the_page_says(folder: Path) -> None:
    tables = "--table orders:order_id --table stock:sku"
    options = f"--event order.json {tables} --key order_id --replay other-content"
    done = run(folder, f"redelivery check fixed.handler {options}")
    assert done.returncode == ExitCode.DIFFERENCE
    assert "lost: m1 with other content" in done.stdout


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
    command: Any = get_command(app)
    options = [o for p in command.commands["check"].params for o in p.opts if o.startswith("--")]
    listed = re.findall(r"--[\w-]+", " ".join(first_cells(section("Options"))))
    assert sorted(listed) == sorted(set(options) - {"--help"})


def test_the_faults_are_those_of_the_kit() -> None:
    rows = [f"| `{fault}` | {meaning} |" for fault, meaning in MEANING.items()]
    assert [line for line in section("Faults").splitlines() if line.startswith("| `")] == rows


def test_the_limits_are_those_of_the_report() -> None:
    words = " ".join(section("What a pass does not mean").split())
    assert words == " ".join(f"- {limit}" for limit in LIMITS)


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
