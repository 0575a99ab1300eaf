"""The Python blocks that no other test runs are complete enough to run, too."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from msgspec import Struct

from once import Consumer, Key, S3Object, Source, Transaction
from once.cdk import ConsumerProps, Dedup, Pollers, TableProps, WarmThroughput
from tests.architecture.imports import ROOT
from tests.docs.test_examples import blocks, run

RUN_BY = {
    "README.md": "tests/docs/test_examples.py",
    "conformance/README.md": "tests/conformance/test_readme.py",
    "docs/effects.md": "tests/docs/test_examples.py",
    "docs/fifo.md": "tests/docs/test_examples.py",
    "docs/migrating.md": "tests/docs/test_migrating.py",
    "docs/webhooks.md": "tests/docs/test_webhooks_page.py",
    "docs/your-service.md": "tests/docs/test_your_service.py",
}
"""The test that runs the blocks of a page, each block by its number or all of them."""

FRAGMENTS = ("docs/item-dedup.md", "docs/scaling.md", "docs/sources.md")
"""Pages whose blocks this module runs: lines of a registry, and handlers without their models."""


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
    return {**shown, "consumer": consumer, "DUE": ("a",), "ORDERS": consumer.table("orders")}


def completed(block: str) -> str:
    """Return a block that ends with a decorator with a function below it."""
    last = block.strip().splitlines()[-1]
    return block + "def handle(event, tx): ...\n" * last.startswith("@")


CASES = [(page, place) for page in FRAGMENTS for place in range(len(blocks(ROOT / page)))]


@pytest.mark.parametrize(("page", "place"), CASES)
def test_a_fragment_runs(page: str, place: int) -> None:
    block = completed(blocks(ROOT / page)[place])
    found = run(ROOT / page, block, **names())
    assert found["consumer"].handlers or "@consumer" not in block


def test_every_page_with_python_has_a_test_that_runs_it() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")]
    with_python = {str(p.relative_to(ROOT)) for p in pages if blocks(p)}
    assert with_python == {*RUN_BY, *FRAGMENTS}
    for page, test in RUN_BY.items():
        assert page.rpartition("/")[2] in (ROOT / test).read_text()


@pytest.mark.parametrize("page", [*RUN_BY, *FRAGMENTS])
def test_every_python_block_compiles(page: str) -> None:
    for block in blocks(ROOT / page):
        compile(completed(dedent(block)), Path(page).name, "exec")
