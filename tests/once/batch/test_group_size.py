"""Group size: as many messages as commit together without frequent cancellations or cost."""

from collections.abc import Sequence
from itertools import count
from math import ceil
from random import Random
from threading import Lock
from typing import Any, cast

import pytest

from once.batch.processor import GroupSize
from once.commit.committer import CommitRequest
from once.commit.result import (
    COMMITTED,
    CONTENDED,
    DUPLICATE,
    UNAFFECTED,
    CommitOutcome,
    CommitResult,
    failed,
)
from once.errors import InvalidWrite, OutcomeUnknown, RequestRefused
from once.intake.reader import Disposition
from once.names import Limits
from once.testing import FakeAws, FakeContext
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.batch.function import Function, batch_of, cancelling, message
from tests.once.support import consumer_of, failures

GOOD, SPOILING = CommitResult(CommitOutcome.COMMITTED), CommitResult(CommitOutcome.CONTENDED)


def after(limit: int, *results: CommitResult) -> GroupSize:
    size = GroupSize(limit)
    for result in results:
        size.learn([result])
    return size


@pytest.mark.parametrize(
    ("spoiling", "smallest", "largest"),
    [(0, 50, 50), (1, 8, 11), (2, 4, 6), (3, 3, 4), (4, 2, 3), (6, 2, 2), (11, 1, 1), (500, 1, 1)],
)
def test_each_spoiling_message_reduces_the_size(spoiling: int, smallest: int, largest: int) -> None:
    # The cost is at most a tenth more than without groups, and the size no smaller than needed.
    assert smallest <= after(50, *[SPOILING] * spoiling).size <= largest


@pytest.mark.parametrize(
    ("one_in", "smallest", "largest"),
    [(1000, 8, 10), (200, 6, 10), (100, 5, 10), (50, 3, 7), (20, 2, 3), (10, 1, 2), (5, 1, 1)],
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
    *(CommitOutcome.BUSY, CommitOutcome.UNATTRIBUTED),
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
        (10, 1, True),
        (10, 50, True),
        (10, 400, False),
        (10, 3001, False),
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


# Cost of groups: at most a tenth more than one transaction a message, whatever the conflicts.


MESSAGES = 2_000
UNITS = 4
"""Write units of a message in a request, cancelled or not: two items, and two units each."""
ALLOWED = 1.10
ALLOWED_AT_2_PERCENT = 1.12
"""The estimate is roughest there: one conflict more or less changes the size by two or three."""

CONSUMER = consumer_of()


def pk_of(event_id: str) -> str:
    return f"notes#event#/test#{event_id}"


class Bill:
    """Commits in memory, in place of a Committer, and counts the units that AWS would charge for.

    A message that is no duplicate meets a conflict with the same probability at each attempt,
    independently of the other messages in its request.
    """

    def __init__(self, conflicts: float) -> None:
        self._conflicts = conflicts
        self._attempts: dict[str, int] = {}
        self._lock = Lock()
        self.committed: set[str] = set()
        self.requests = self.units = 0

    def request(self, transaction: Transaction, now: float) -> CommitRequest:
        key = ("counters", (("name", transaction.identity.pk),))
        return CommitRequest(transaction, {key: cast("Any", None)}, [None] * 2, 0, now)

    def commit(self, requests: Sequence[CommitRequest]) -> list[CommitResult]:
        pks = [request.transaction.identity.pk for request in requests]
        with self._lock:
            self.requests += 1
            self.units += UNITS * len(requests)
            results = [self._result(pk) for pk in pks]
            if results != [UNAFFECTED] * len(pks):
                return results
            self.committed.update(pks)
            return [COMMITTED] * len(pks)

    def look_up(self, transactions: Sequence[Transaction]) -> list[CommitResult | None]:
        self.requests += ceil(len(transactions) / Limits.BATCH_GET_KEYS)
        pks = [transaction.identity.pk for transaction in transactions]
        return [DUPLICATE if pk in self.committed else None for pk in pks]

    def _result(self, pk: str) -> CommitResult:
        if pk in self.committed:
            return DUPLICATE
        attempt = self._attempts[pk] = self._attempts.get(pk, 0) + 1
        return CONTENDED if self._conflict(pk, attempt) else UNAFFECTED

    def _conflict(self, pk: str, attempt: int) -> bool:
        return Random(f"{pk} {attempt}").random() < self._conflicts

    def alone(self, pk: str) -> int:
        """The requests that a message would take without groups."""
        if pk in self.committed:
            return 1
        return next(attempt for attempt in count(1) if not self._conflict(pk, attempt))


def run(aws: FakeAws, bill: Bill, duplicates: float, batch: int) -> int:
    """Let a warm function work on first deliveries; return the requests without groups."""
    handle, seeded, alone = CONSUMER.bound_to(aws.runtime), Random(duplicates), 0
    for first in range(0, MESSAGES, batch):
        names = [str(number) for number in range(first, first + batch)]
        bill.committed |= {pk_of(name) for name in names if seeded.random() < duplicates}
        alone += sum(bill.alone(pk_of(name)) for name in names)
        assert failures(handle({"Records": batch_of(*names)}, FakeContext())) == []
    assert len(bill.committed) == MESSAGES
    return alone


RATES = [
    (0.0, 0.0, 0.10),
    (0.02, 0.0, 0.33),
    (0.05, 0.0, 0.70),
    (0.30, 0.0, ALLOWED),
    (0.0, 0.01, 0.30),
    (0.0, 1.0, 0.12),
    (0.05, 0.10, 0.75),
]
"""Conflicts, duplicates, and the share of requests that is left."""


@pytest.mark.parametrize(
    ("batch", "threads", "conflicts", "duplicates", "share"),
    [*((10, 1, *rates) for rates in RATES), (100, 4, 0.05, 0.10, 0.75)],
)
def test_groups_save_requests_and_cost_at_most_a_tenth_more(
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    conflicts: float,
    duplicates: float,
    share: float,
    batch: int,
    threads: int,
) -> None:
    aws, bill = start(CONSUMER, commit_threads=threads), Bill(conflicts)
    monkeypatch.setattr("once.consumer.committer_of", lambda _: bill)
    alone = run(aws, bill, duplicates, batch)
    assert bill.requests <= share * alone
    allowed = ALLOWED_AT_2_PERCENT if conflicts == 0.02 else ALLOWED
    assert bill.units <= allowed * alone * UNITS
