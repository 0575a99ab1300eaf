"""Fixtures: a publisher and a consumer of large data, in memory."""

from collections.abc import Iterator

import pytest

from once.testing import FakeAws
from tests.once.events.claim_check.scans import (
    SETTINGS,
    TABLES,
    make_reader,
    make_scanner,
)


@pytest.fixture
def scanner() -> Iterator[FakeAws]:
    options = {**SETTINGS, "publishes": ("scan.done",)}
    with FakeAws(make_scanner(), {}, **options) as aws:
        yield aws


@pytest.fixture
def reader() -> Iterator[FakeAws]:
    """A consumer of internal events of `scanner`."""
    with FakeAws(make_reader(), TABLES, publishers={"scan.done": "scanner"}, **SETTINGS) as aws:
        yield aws


@pytest.fixture
def outsider() -> Iterator[FakeAws]:
    """The same consumer, for events of producers."""
    with FakeAws(make_reader(), TABLES, **SETTINGS) as aws:
        yield aws
