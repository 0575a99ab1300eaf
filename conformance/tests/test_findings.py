"""The page on public handlers agrees with their descriptions, and its command explains itself."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from findings import __main__ as command
from findings.handlers import ALL, PublicHandler, ready
from findings.results import table
from lab.stores import SERVERS, servers
from redelivery import Fault, Subject, Table
from redelivery.examination import examine

from .support import KIT

PAGE = (KIT / "findings" / "README.md").read_text()
RESULTS: dict[str, Any] = json.loads((KIT / "findings" / "results.json").read_text())
COURSE = re.compile(r"\*\*(?:Course|Also)\*\* \(`([a-z-]+)")
SOURCE = """
import boto3, json
def handler(event, context):
    for record in event["Records"]:
        order = json.loads(record["body"])
        boto3.resource("dynamodb").Table("orders").put_item(Item=order)
"""


@pytest.fixture(autouse=True)
def _redis_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subject replaces the client in its process, which a check of its own ends with."""
    monkeypatch.setattr(redis, "Redis", redis.Redis)


def test_the_page_has_the_table_of_the_results() -> None:
    assert table(RESULTS["handlers"]) in PAGE
    for version in RESULTS["versions"].values():
        assert version in PAGE
    assert RESULTS["date"] in PAGE


def test_the_results_are_of_the_described_handlers() -> None:
    names = ("name", "repository", "commit", "path")
    found = [{name: handler[name] for name in names} for handler in RESULTS["handlers"]]
    assert found == [{name: getattr(handler, name) for name in names} for handler in ALL]


@pytest.mark.parametrize("handler", ALL, ids=lambda handler: str(handler.name))
def test_the_page_names_where_a_handler_is_and_what_the_check_showed(
    handler: PublicHandler,
) -> None:
    _, _, rest = PAGE.partition(f"\n### {handler.name[0].upper()}{handler.name[1:]}\n")
    section = rest.partition("\n###")[0]
    for text in (handler.repository, handler.commit, handler.licence, handler.path):
        assert text in section
    [found] = [h["findings"] for h in RESULTS["handlers"] if h["name"] == handler.name]
    told = COURSE.findall(section)
    assert told
    assert set(told) <= {entry["fault"] for entry in found}


@pytest.fixture(scope="module")
def urls() -> Iterator[Mapping[str, str]]:
    with servers(SERVERS) as running:
        yield running


@pytest.mark.parametrize("handler", ALL, ids=lambda handler: str(handler.name))
def test_a_correction_passes_where_the_handler_fails(
    handler: PublicHandler, urls: Mapping[str, str]
) -> None:
    [found] = [h["findings"] for h in RESULTS["handlers"] if h["name"] == handler.name]
    faults = [Fault(entry["fault"]) for entry in found]
    results = examine(ready(handler, urls).corrected, only=faults).results
    assert [(r.scenario, r.differences) for r in results if r.fired and r.differences] == []
    assert {r.fault for r in results if r.fired} == set(faults)


def test_a_missing_clone_is_named_with_the_command_that_makes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = ALL[-1]
    (tmp_path / handler.clone).mkdir()
    options = ["--clones", str(tmp_path)]
    assert command.main([*options, "--only", handler.name]) == command.WRONG_CLONE
    told = capsys.readouterr().err
    assert f"{handler.clone}: is at commit unknown, not {handler.commit}" in told
    assert f"git clone https://github.com/{handler.repository} " in told
    assert f"checkout {handler.commit}" in told
    assert command.main([*options, "--only", ALL[0].name]) == command.WRONG_CLONE
    assert f"{ALL[0].clone}: no folder {tmp_path / ALL[0].clone}" in capsys.readouterr().err


def test_a_clone_is_checked_as_its_deployment_packs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = _cloned(tmp_path)
    monkeypatch.setattr(command, "ALL", (handler,))
    results = tmp_path / "results.json"
    assert command.main(["--clones", str(tmp_path), "--json", str(results)]) == 0
    [found] = json.loads(results.read_text())["handlers"]
    assert [(entry["fault"], entry["kinds"]) for entry in found["findings"]] == [
        ("neighbour-fails", ["dead-lettered"]),
        ("poison", ["dead-lettered"]),
    ]
    assert table([found]) in capsys.readouterr().out


def _cloned(clones: Path) -> PublicHandler:
    folder = clones / "orders"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "orders_handler.py").write_text(SOURCE)
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "Add a handler"]):
        subprocess.run(["git", "-C", folder, *arguments], check=True)
    head = subprocess.run(
        ["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    subject = Subject(
        handler="orders_handler.handler",
        events=({"order_id": "o-1"},),
        tables=(Table("orders", key="order_id"),),
        batch_failures=False,
    )
    return replace(
        ALL[0],
        name="orders",
        repository="example/orders",
        commit=head.stdout.strip(),
        path="src/orders_handler.py",
        package=("src",),
        subject=subject,
    )
