"""Group size: as many messages as commit together without frequent cancellations or cost."""

from typing import Any

import pytest

from once.batch.processor import GroupSize
from once.commit.result import CommitOutcome, CommitResult, failed
from once.errors import InvalidWrite, OutcomeUnknown, RequestRefused
from once.intake.reader import Disposition
from tests.once.batch.function import Function, batch_of, cancelling, message

GOOD, SPOILING = CommitResult(CommitOutcome.COMMITTED), CommitResult(CommitOutcome.CONTENDED)


def after(limit: int, *results: CommitResult) -> GroupSize:
    size = GroupSize(limit)
    for result in results:
        size.learn([result])
    return size


@pytest.mark.parametrize(
    ("spoiling", "smallest", "largest"),
    [(0, 50, 50), (1, 8, 11), (4, 2, 3), (11, 1, 1), (500, 1, 1)],
)
def test_each_spoiling_message_reduces_the_size(spoiling: int, smallest: int, largest: int) -> None:
    # The cost is at most a tenth more than without groups, and the size no smaller than needed.
    assert smallest <= after(50, *[SPOILING] * spoiling).size <= largest


@pytest.mark.parametrize(
    ("one_in", "smallest", "largest"),
    [(1000, 8, 10), (50, 3, 7), (10, 1, 2)],
)
def test_the_size_follows_the_share_that_spoils(one_in: int, smallest: int, largest: int) -> None:
    turn = [*[GOOD] * (one_in - 1), SPOILING]
    size, seen = after(10, *(turn * 1000)[:2000]), []
    for result in [*turn[:-1], SPOILING]:
        size.learn([result])
        seen.append(size.size)
    assert smallest <= min(seen) <= max(seen) <= largest


HARMLESS = {
    *(CommitOutcome.COMMITTED, CommitOutcome.UNAFFECTED),
    *(CommitOutcome.BUSY, CommitOutcome.THROTTLED, CommitOutcome.UNATTRIBUTED),
}
RESULTS = [(CommitResult(outcome), 10 if outcome in HARMLESS else 1) for outcome in CommitOutcome]
# The last two fail the whole request, so that a smaller group would have failed as well.
FAILED = [(failed(InvalidWrite("x")), 1), (failed(OutcomeUnknown("x")), 10),
          (failed(RequestRefused("x")), 10)]  # fmt: skip


@pytest.mark.parametrize(("result", "size"), [*RESULTS, *FAILED])
def test_only_spoiling_results_reduce_the_size(result: CommitResult, size: int) -> None:
    assert after(10, *[result] * 20).size == size


def with_duplicates(limit: int, one_in: int) -> GroupSize:
    size = GroupSize(limit)
    for i in range(3000):
        is_duplicate = i % one_in == one_in - 1
        end = Disposition.DUPLICATE if is_duplicate else Disposition.COMMITTED
        size.learn([], [(end, 1)])
    return size


@pytest.mark.parametrize(
    ("limit", "one_in", "looks"),
    [
        (10, 50, True),
        (10, 400, False),
        (2, 5, True),
        (2, 20, False),
        (50, 200, True),
        (1, 1, False),
    ],
)
def test_frequent_duplicates_are_looked_up_first(limit: int, one_in: int, *, looks: bool) -> None:
    assert with_duplicates(limit, one_in).looks_up_all is looks


def test_conflicts_and_duplicates_are_forgotten_after_some_hundred_messages() -> None:
    spoilt, duplicates = after(10, *[SPOILING] * 1000), with_duplicates(10, 1)
    for _ in range(100):
        spoilt.learn([GOOD])
        duplicates.learn([], [(Disposition.COMMITTED, 1)])
    assert spoilt.size < 10
    assert duplicates.looks_up_all
    for _ in range(900):
        spoilt.learn([GOOD])
        duplicates.learn([], [(Disposition.COMMITTED, 1)])
    assert spoilt.size == 10
    assert not duplicates.looks_up_all


NAMES = [f"n{i}" for i in range(10)]


def others(prefix: str) -> list[Any]:
    return batch_of(*(f"{prefix} {name}" for name in NAMES))


@pytest.fixture
def warm(function: Function) -> Function:
    function.keep_warm()
    return function


def test_the_size_is_learnt_while_the_function_is_warm(warm: Function) -> None:
    half = cancelling(dict.fromkeys(NAMES[:5], "TransactionConflict"))
    assert warm.run(*batch_of(*NAMES), writes=half).sizes[0] == 10
    assert 2 <= max(warm.run(*others("second")).sizes) <= 3
    warm.keep_warm()  # a new instance
    assert warm.run(*others("third")).sizes == [10]


def test_only_the_first_attempt_of_a_message_is_learnt_from(warm: Function) -> None:
    often = cancelling({"n0": "TransactionConflict"}, times=8)
    assert warm.run(*batch_of(*NAMES), writes=often).sizes.count(1) == 8
    assert max(warm.run(*others("second")).sizes) >= 8


def test_shared_items_within_a_batch_do_not_reduce_the_size(warm: Function) -> None:
    pairs = [message(name, f"{name} {i}") for i in range(6) for name in ("a", "b")]
    assert warm.run(*pairs).sizes == [2] * 6
    assert warm.run(*batch_of(*NAMES)).sizes == [10]
