"""The Python blocks of the pages run, and their ratios hold for the measured figures."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from moto.core.base_backend import BackendDict
from msgspec import Struct

from demo import browser
from once import Consumer, Key, S3Object, Source, Transaction
from once.cdk import (
    ConsumerProps,
    Dedup,
    DeploymentConfig,
    ExistingTable,
    GlobalTables,
    Pollers,
    TableProps,
    WarmThroughput,
    deployment_faults,
)
from once.cdk.checks.consumer_props import line_group_faults
from once.cdk.checks.consumer_set import group_set_faults
from once.cdk.checks.deployment_config import unfit_option_faults
from once.testing import FakeAws, cloud_event
from tests.architecture.imports import ROOT
from tests.once.dynamodb_cases import OTHERWISE_EMBEDDED
from tests.once.outbox.test_publisher import Topic

README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "performance.md"


def blocks(document: Path) -> list[str]:
    return re.findall(r"^ *```python\n(.*?)```", document.read_text(), re.DOTALL | re.MULTILINE)


def run(document: Path, *examples: str, **given: Any) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "example", **given}
    for example in examples:
        exec(compile(example, document.name, "exec"), names)
    return names


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "index.md"], ids=lambda page: page.name)
def test_the_handler_and_its_test_run(page: Path) -> None:
    names = run(page, *blocks(page))
    assert set(names["consumer"].handlers) == {"seat.booked"}


def test_every_policy_of_the_examples_has_the_version_of_todays_policy_language() -> None:
    files = [p for p in (ROOT / "examples").rglob("*") if p.suffix in {".yaml", ".yml", ".tf"}]
    texts = [file.read_text() for file in files]
    counts = [(len(re.findall(r"\bStatement\b", t)), t.count("2012-10-17")) for t in texts]
    assert sum(statements for statements, _ in counts) >= 4
    assert all(statements == versions for statements, versions in counts)


def test_the_readme_can_be_read_in_five_minutes() -> None:
    text = README.read_text()
    assert len(text.split()) <= 700
    assert text.count("](") <= 15


def test_the_glossary_has_at_most_thirty_words_of_once() -> None:
    own = (ROOT / "docs/glossary.md").read_text().partition("## Words of the field")[0]
    words = re.findall(r"^\| (?!word |-)([^|]+) \|", own, re.MULTILINE)
    assert 20 < len(words) <= 30, words


def test_the_first_day_needs_seven_words() -> None:
    glossary = (ROOT / "docs/glossary.md").read_text().partition("## Steps of")[0]
    page = (ROOT / "docs/first-day.md").read_text().partition("## Deploy to AWS")[0]
    explained = re.findall(r"^\| (?!word |-)([^|]+) \|", page, re.MULTILINE)
    cells = re.findall(r"^\| (?!word |-)([^|]+) \|", glossary, re.MULTILINE)
    words = [each.strip() for cell in cells for each in re.sub(r"\(.*?\)", "", cell).split(",")]
    text = re.sub(r"```.*?```|`.*?`", "", page, flags=re.DOTALL)
    used = {each for each in words if re.search(rf"\b{re.escape(each)}s?\b", text, re.IGNORECASE)}
    assert used == {*explained}
    assert len(explained) <= 7


def test_the_fifo_page_declares_lines_and_publishes_in_a_group() -> None:
    document, topic = ROOT / "docs" / "fifo.md", Topic()
    given: dict[str, Any] = {
        "boto3": SimpleNamespace(client=lambda _: topic),
        "ORDERED_INGRESS_TOPIC_ARN": "ingress.fifo",
        "entries": [{"account_id": 7, "entry_id": f"e-{n}"} for n in range(2)],
    }
    names = run(document, *blocks(document), ConsumerProps=ConsumerProps, **given)
    assert consumer_group_faults(names["FAIR"], names["ORDERED"]) == []
    assert [entry["MessageGroupId"] for _, entry in topic.taken] == ["7", "7"]
    assert len({entry["MessageDeduplicationId"] for _, entry in topic.taken}) == 2


def consumer_group_faults(*lines: ConsumerProps) -> list[str]:
    return [*(f for line in lines for f in line_group_faults(line)), *group_set_faults(lines)]


class Bank:
    """The provider of the example: answers from a list, and records the keys."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.keys: list[str] = []

    def refund(self, amount: int, *, idempotency_key: str, timeout: float) -> Any:
        self.keys.append(idempotency_key)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


BOOKED = {"booking": "b-1", "show": "Hamlet", "seats": 2, "at": "2026-11-24T08:00:00Z"}


def test_the_handlers_page_books_refuses_and_computes() -> None:
    first, computed, *_ = blocks(document := ROOT / "docs" / "handlers.md")
    names = run(document, first)
    tables, published = {"seats": "show", "bookings": "booking"}, ("seat.taken",)
    with FakeAws(names["consumer"], tables, publishes=published) as aws:
        aws.given("seats", {"show": "Hamlet", "available": 3, "last": {}})
        for event in (BOOKED, BOOKED, BOOKED | {"booking": "b-2"}, BOOKED | {"seats": 1}):
            aws.deliver(cloud_event("seat.booked", event))
        assert aws.items("bookings") == [
            {"booking": "b-1", "status": "paid", "show": "Hamlet", "repetitions": 1}
        ]
        assert aws.items("seats") == [
            {
                "show": "Hamlet",
                "available": 1,
                "size": 0,
                "last": {"turned_away": BOOKED["at"]},
                "history": [{"booking": "b-1", "seats": 2}],
            }
        ]
    tx = Mock()
    exec(compile(computed, "handlers.md", "exec"), {**names, "tx": tx})
    assert tx.update.call_args.args[2] == "SET available = #size - sold"


def test_the_hooks_of_the_handlers_page_trace_count_and_pause(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tracer = MagicMock()  # its package is none of the library's
    monkeypatch.setattr("aws_lambda_powertools.Tracer", tracer)
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Tickets")
    # A Logger of a name that is known already keeps the output of the test that made it.
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "page")
    document = ROOT / "docs" / "handlers.md"
    names = run(document, *blocks(document)[2:])
    booked = cloud_event("seat.booked", {"show": "Hamlet", "seats": 2})
    with FakeAws(names["consumer"], {"seats": "show"}) as aws:
        aws.deliver(booked)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        line, _ = [line for line in lines if line.get("message") == "booking"]  # a duplicate
        assert {"message_id", "key_hash", "receive_count", "seats"} <= line.keys()
        monkeypatch.setenv("PAUSED", "1")
        with pytest.raises(names["Paused"]):
            aws.deliver(cloud_event("seat.booked", {"show": "Hamlet", "seats": 1}))
        assert aws.items("seats") == [{"show": "Hamlet", "sold": 2}]
    tracer().provider.in_subsegment.assert_called_with("## handler")
    assert names["metrics"].metric_set["SeatsAsked"]["Value"] == [2, 2]  # a duplicate ran
    BackendDict.reset()
    names["test_a_booking_through_the_deployed_entry"]()


def test_the_tests_of_the_testing_page_pass(once_aws: Callable[..., FakeAws]) -> None:
    document = ROOT / "docs" / "testing.md"
    names = run(document, *blocks(document))
    tests = [each for name, each in names.items() if name.startswith("test_")]
    assert len(tests) == 5
    for test in tests:
        BackendDict.reset()
        test(names["aws"].__wrapped__(once_aws))


def test_the_testing_page_has_each_difference_of_the_embedded_aws() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    assert {name for name in OTHERWISE_EMBEDDED if f"| {name} |" not in page} == set()


def test_the_effect_and_its_test_run() -> None:
    bank, document = Bank(), ROOT / "docs" / "effects.md"
    run(document, *blocks(document)[:2], bank=bank)
    assert len(bank.keys) == 2


def test_the_workflow_and_its_test_run() -> None:
    document = ROOT / "docs" / "effects.md"
    names = run(document, *blocks(document)[2:])
    assert names["execution"]["status"] == "RUNNING"


@pytest.mark.parametrize(
    ("row", "claim", "contender", "least", "most"),
    [
        ("| Powertools' idempotency |", "three times a", "Powertools", 2.5, 3.5),
        ("| **Once**, ten a commit |", "less than a seventh of a", "Once, grouped", 0.0, 1 / 7),
    ],
)
def test_a_ratio_beside_others_holds_for_the_measured_one(
    row: str, claim: str, contender: str, least: float, most: float
) -> None:
    page = (ROOT / "docs" / "beside-others.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith(row))
    assert f", {claim} transaction's time" in line
    table = PERFORMANCE.read_text().split("<!-- measured: begin -->")[1].split("\n\n")[1]
    (at_5_ms,) = re.findall(rf"^\| {contender} \| [\d.]+ \| ([\d.]+) \|", table, re.MULTILINE)
    assert least < float(at_5_ms) < most


def test_the_pictures_of_the_console_are_of_its_pages_as_they_are_now() -> None:
    shown = (ROOT / "docs" / "img" / browser.SHOWN).read_text()
    assert shown == f"{browser.digest_of_pages()}\n", "run `make redraw`"


RUN_BY = {
    "README.md": "tests/docs/test_examples.py",
    "docs/commands.md": "tests/docs/test_commands_page.py",
    "docs/effects.md": "tests/docs/test_examples.py",
    "docs/fifo.md": "tests/docs/test_examples.py",
    "docs/handlers.md": "tests/docs/test_examples.py",
    "docs/index.md": "tests/docs/test_examples.py",
    "docs/migrating.md": "tests/docs/test_migrating.py",
    "docs/processes.md": "tests/docs/test_examples.py",
    "docs/regions.md": "tests/docs/test_examples.py",
    "docs/testing.md": "tests/docs/test_examples.py",
    "docs/webhooks.md": "tests/docs/test_webhooks_page.py",
    "docs/your-service.md": "tests/docs/test_your_service.py",
}
"""The test that runs the blocks of a page, each block by its number or all of them."""

FRAGMENTS = (
    *("docs/item-dedup.md", "docs/scaling.md", "docs/sources.md", "docs/without-the-cdk.md"),
)
"""Pages with fragments: lines of a registry, and handlers without their models."""


class OrderPlaced(Struct):
    order_id: str


class PaymentCaptured(Struct):
    order_id: str
    amount: int


class Night(Struct):
    scheduled_at: str


class Document(Struct):
    name: str
    scheduled_at: str


def names() -> dict[str, Any]:
    library = (Key, S3Object, Source, Transaction, ConsumerProps, Dedup, Pollers, TableProps)
    models = (WarmThroughput, OrderPlaced, PaymentCaptured, Night, Document)
    shown = {each.__name__: each for each in (*library, *models)}
    consumer = Consumer("example")
    producing = {
        "boto3": SimpleNamespace(client=lambda _: Topic()),
        "INGRESS_TOPIC_ARN": "ingress",
        "orders": [{"order_id": "o-1"}],
    }
    tables = {"DUE": ("a",), "ORDERS": consumer.table("orders")}
    return {**shown, **producing, **tables, "consumer": consumer}


def completed(block: str) -> str:
    """Return a block that ends with a decorator with a function below it."""
    last = block.strip().splitlines()[-1]
    return block + "def handle(event, tx): ...\n" * last.startswith("@")


@pytest.mark.parametrize("page", FRAGMENTS)
def test_the_fragments_of_a_page_run(page: str) -> None:
    for block in map(completed, blocks(ROOT / page)):
        found = run(ROOT / page, block, **names())
        assert found["consumer"].handlers or "@consumer" not in block


def test_the_deployment_of_a_standby_brings_no_table_of_its_own() -> None:
    page = ROOT / "docs" / "regions.md"
    [block] = blocks(page)
    classes = (DeploymentConfig, ExistingTable, GlobalTables)
    config = run(page, block, **{each.__name__: each for each in classes})["config"]
    lines = [ConsumerProps("box", tables=(TableProps("seats", "show"),), dedup=Dedup.ITEM)]
    for region, standby, taken in (("eu-west-1", False, []), ("eu-central-1", True, ["seats"])):
        made = config(region, standby=standby)
        assert (made.standby, [*made.existing_tables]) == (standby, taken)
        assert [*deployment_faults(made), *unfit_option_faults(made, lines, region)] == []


def test_the_steps_of_the_processes_page_are_those_of_the_shop() -> None:
    shop = "".join(p.read_text() for p in (ROOT / "functions").glob("*/handler.py"))
    for block in blocks(ROOT / "docs" / "processes.md"):
        for step in block.split("\n\n\n"):
            assert step in shop or indent(step, "    ") in shop


def test_every_page_with_python_has_a_test_that_runs_it() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "events" / "README.md"]
    with_python = {str(p.relative_to(ROOT)) for p in pages if blocks(p)}
    assert with_python == {*RUN_BY, *FRAGMENTS}
    for page, test in RUN_BY.items():
        assert page.rpartition("/")[2] in (ROOT / test).read_text()
        for block in blocks(ROOT / page):
            compile(completed(dedent(block)), Path(page).name, "exec")
