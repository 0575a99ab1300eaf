"""The number of files that a reader opens to follow one order through the library."""

from typing import Any

import pytest

from benchmarks.walk import MOST_MOVES, Figures, Walk, walk_of, walk_of_an_order
from once.error_text import summary_of
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key, key_hash
from once.events.fingerprint import canonical


@pytest.fixture(scope="module")
def walk() -> Walk:
    return walk_of_an_order()


def test_an_order_moves_between_few_files(walk: Walk) -> None:
    assert 0 < walk.figures.moves <= MOST_MOVES


def test_a_warm_invocation_enters_the_runtime_files_only(walk: Walk) -> None:
    files = set(walk.files)
    assert {"intake/reader.py", "handlers/transaction.py", "commit/committer.py"} <= files
    assert not any(file.startswith("testing/") for file in files)
    assert "composition.py" not in files


def test_a_call_within_a_file_is_no_move() -> None:
    walk = walk_of(lambda: [key_hash("a"), key_hash("b")])
    assert walk.figures == Figures(modules=1, moves=0, calls=2)


def test_a_call_into_another_file_is_a_move_and_its_return_another() -> None:
    event = CloudEvent(id="e", source="/s", type="t")
    key = Key.field("name")
    walk = walk_of(lambda: [summary_of(ValueError()), canonical({}), _raised(key, event)])
    assert walk.files[:2] == ["error_text.py", "events/fingerprint.py"]
    assert walk.figures.moves == len(walk.files) - 1 == 2


def test_code_outside_the_library_is_skipped() -> None:
    walk = walk_of(lambda: sorted(["b", "a"], key=key_hash))
    assert walk.figures == Figures(modules=1, moves=0, calls=2)


def test_calls_after_the_walk_are_not_recorded(walk: Walk) -> None:
    before = walk.figures
    canonical({})
    assert walk.figures == before


def _raised(key: Key, event: CloudEvent) -> Any:
    try:
        return key.of(event, fingerprint="f", consumer="c")
    except Exception as error:
        return error
