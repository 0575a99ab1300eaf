"""The commit protocol against real transactions, with faults at the SDK's boundary."""

import json
from collections.abc import Sequence
from typing import Any

from once.commit.committer import Committer
from once.commit.result import COMMITTED, DUPLICATE, UNAFFECTED, CommitOutcome, CommitResult
from once.events.cloud_event import read_event
from once.transaction import Identity, Transaction
from tests.integration.probe import COUNTERS, Bench, SoldOut, event


def test_a_write_that_dynamodb_rejects_is_quarantined_alone(bench: Bench) -> None:
    bench.put("visits", 1)
    events = [event("added", "visits"), event("made.wrong", "visits"), event("added", "visits")]
    assert bench.deliver(*events) == []
    assert bench.amount("visits") == 3
    assert bench.reasons() == ["invalid-write"]


def _transaction(bench: Bench, name: str, fingerprint: str = "f", **change: Any) -> Transaction:
    def no_reads(*_: Any) -> None:
        raise AssertionError("these transactions read nothing")

    transaction = Transaction(
        read_event(json.dumps(event("added", name)), max_bytes=1000),
        Identity(f"probe#{name}", fingerprint),
        bench.settings,
        read=no_reads,
    )
    transaction.update(COUNTERS, {"id": name}, "ADD amount :by", {":by": 1}, **change)
    return transaction


def _commit(bench: Bench, transactions: Sequence[Transaction]) -> list[CommitResult]:
    runtime = bench.runtime
    committer = Committer(runtime.dynamodb, runtime.settings, runtime.clock)
    now = runtime.clock()
    return committer.commit([committer.request(t, now) for t in transactions])


def test_each_transaction_of_a_request_gets_its_own_result(bench: Bench) -> None:
    names = ("known", "other", "refused", "unaffected")
    assert _commit(bench, [_transaction(bench, name) for name in names[:2]]) == [COMMITTED] * 2
    results = _commit(
        bench,
        [
            _transaction(bench, "known"),
            _transaction(bench, "other", fingerprint="g"),
            _transaction(bench, "refused", condition="attribute_exists(x)", otherwise=SoldOut("x")),
            _transaction(bench, "unaffected"),
        ],
    )
    assert (results[0], results[3]) == (DUPLICATE, UNAFFECTED)
    assert [r.outcome for r in results[1:3]] == [CommitOutcome.FAILED, CommitOutcome.REFUSED]
    assert [bench.amount(name) for name in names] == [1, 1, 0, 0]
