"""The number of files that a reader opens to follow a flow through the library."""

from functools import cache

import pytest

from benchmarks.walk import FLOWS, MOST_MODULES, MOST_MOVES, Walk


@cache
def walk_of_flow(flow: str) -> Walk:
    return FLOWS[flow]()


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_passes_through_few_files(flow: str) -> None:
    figures = walk_of_flow(flow).figures
    assert 1 < figures["modules"] <= MOST_MODULES[flow]
    assert 0 < figures["moves"] <= MOST_MOVES[flow]


@pytest.mark.parametrize(
    ("flow", "entered"),
    [
        ("order", {"intake/reader.py", "transaction.py", "commit/committer.py"}),
        ("redrive", {"ops/dead_letters/search.py", "ops/operator_log.py"}),
        ("webhook", {"webhooks/signature.py", "webhooks/capture.py", "commit/committer.py"}),
    ],
)
def test_a_flow_enters_the_files_that_do_its_work(flow: str, entered: set[str]) -> None:
    assert entered <= set(walk_of_flow(flow).files)
