"""Cost of groups: at most a tenth more than one transaction a message, whatever the conflicts."""

from collections.abc import Sequence
from itertools import count
from math import ceil
from random import Random
from threading import Lock
from typing import Any, cast

import pytest

from once.commit.committer import CommitRequest
from once.commit.result import COMMITTED, CONTENDED, DUPLICATE, UNAFFECTED, CommitResult
from once.names import Limits
from once.testing import FakeAws, FakeContext
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.batch.batches import batch_of
from tests.once.support import consumer_of, failures

MESSAGES = 3_000
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


@pytest.mark.parametrize(("batch", "threads"), [(10, 1), (100, 4)])
@pytest.mark.parametrize(
    ("conflicts", "duplicates", "share"),
    [
        (0.0, 0.0, 0.10),
        (0.01, 0.0, 0.30),
        (0.02, 0.0, 0.33),
        (0.05, 0.0, 0.70),
        (0.10, 0.0, ALLOWED),
        (0.30, 0.0, ALLOWED),
        (0.0, 0.01, 0.30),
        (0.0, 0.10, 0.25),
        (0.0, 0.50, 0.25),
        (0.0, 1.0, 0.12),
        (0.05, 0.10, 0.75),
    ],
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
