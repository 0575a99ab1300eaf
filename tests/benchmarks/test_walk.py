"""The number of files that a reader opens to follow a flow through the library."""

from functools import cache
from typing import Any

import pytest

from benchmarks.walk import FLOWS, MOST_MODULES, MOST_MOVES, Figures, Walk, walk_of
from once.errors import summary_of
from once.events.cloud_event import CloudEvent
from once.events.identity import Key, key_hash
from once.events.outgoing import event_id_of


@cache
def walk_of_flow(flow: str) -> Walk:
    return FLOWS[flow]()


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_passes_through_few_files(flow: str) -> None:
    figures = walk_of_flow(flow).figures
    assert 1 < figures.modules <= MOST_MODULES[flow]
    assert 0 < figures.moves <= MOST_MOVES.get(flow, figures.moves)


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


@pytest.mark.parametrize("flow", FLOWS)
def test_what_a_warm_process_has_done_before_is_not_entered(flow: str) -> None:
    files = set(walk_of_flow(flow).files)
    assert not any(file.startswith(("testing/", "ops/terminal.py")) for file in files)
    assert not files & {"consumer.py", "settings.py", "ops/aws/_stack_outputs.py"}


def test_a_flow_is_the_same_at_every_walk() -> None:
    assert FLOWS["webhook"]() == walk_of_flow("webhook")


def test_a_call_within_a_file_is_no_move() -> None:
    walk = walk_of(lambda: [key_hash("a"), key_hash("b")])
    assert walk.figures == Figures(modules=1, moves=0, calls=2)


def test_a_call_into_another_file_is_a_move_and_its_return_another() -> None:
    event = CloudEvent(id="e", source="/s", type="t")
    key = Key.field("name")
    walk = walk_of(lambda: [summary_of(ValueError()), event_id_of("r", 0), _raised(key, event)])
    assert walk.files[:2] == ["errors.py", "events/outgoing.py"]
    assert walk.figures.moves == len(walk.files) - 1 == 2


def _raised(key: Key, event: CloudEvent) -> Any:
    try:
        return key.of(event, fingerprint="f", consumer="c")
    except Exception as error:
        return error
