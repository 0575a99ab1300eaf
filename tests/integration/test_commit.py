"""The commit protocol against real transactions, with faults at the SDK's boundary."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from once.commit.committer import Committer
from once.commit.request import CommitRequest
from once.commit.request_encoding import write_bodies
from once.commit.result import (
    COMMITTED,
    DUPLICATE,
    UNAFFECTED,
    UNATTRIBUTED,
    CommitOutcome,
    CommitResult,
)
from once.events.cloud_event import read_event
from once.handlers.transaction import Identity, Transaction
from once.testing import answer_lost, cancelled, inject, never_sent, refused
from tests.integration.probe import COUNTERS, Bench, SoldOut, event


def test_an_answer_that_is_lost_after_the_commit_counts_once(bench: Bench) -> None:
    with inject(bench.runtime.dynamodb, "TransactWriteItems", answer_lost()) as left:
        assert bench.deliver(event("added", "visits", event_id="e-1")) == []
    assert left == []
    assert bench.amount("visits") == 1
    assert bench.deliver(event("added", "visits", event_id="e-1")) == []
    assert bench.amount("visits") == 1


@pytest.mark.parametrize(
    "fault",
    [
        cancelled("TransactionConflict", "None"),
        cancelled("None", "ThrottlingError"),
        refused("TransactionInProgressException"),
        refused("ProvisionedThroughputExceededException"),
        refused("InternalServerError", status=500),
        never_sent(),
    ],
    ids=["conflict", "throttled item", "in progress", "throttled", "server error", "no answer"],
)
def test_a_commit_that_meets_a_passing_fault_is_tried_again_in_place(
    bench: Bench, fault: Any
) -> None:
    # The SDK's own retry meets the same fault: three attempts are more than it makes.
    with inject(bench.runtime.dynamodb, "TransactWriteItems", fault, fault, fault):
        assert bench.deliver(event("added", "visits")) == []
    assert bench.amount("visits") == 1


def test_a_write_that_dynamodb_refuses_is_quarantined_and_its_neighbours_commit(
    bench: Bench,
) -> None:
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
        tables=bench.settings.tables,
        publishes=(),
        read=no_reads,
    )
    key, values = {"id": name}, change.pop("values", {":by": 1})
    transaction.update(COUNTERS, key, "ADD amount :by", values, **change)
    return transaction


def _commit(bench: Bench, transactions: Sequence[Transaction]) -> list[CommitResult]:
    runtime = bench.runtime
    committer = Committer(runtime.dynamodb, runtime.settings, runtime.clock)
    write_bodies(runtime.dynamodb)
    now = runtime.clock()
    return committer.commit([CommitRequest.of(t, runtime.settings, now) for t in transactions])


def test_a_list_commits_in_one_request(bench: Bench) -> None:
    transactions = [_transaction(bench, f"t-{n}") for n in range(10)]
    with inject(bench.runtime.dynamodb, "TransactWriteItems", None, refused("Unexpected")) as left:
        assert _commit(bench, transactions) == [COMMITTED] * 10
    assert len(left) == 1
    assert [bench.amount(f"t-{n}") for n in range(10)] == [1] * 10


def test_in_a_list_every_one_gets_its_own_verdict(bench: Bench) -> None:
    assert _commit(bench, [_transaction(bench, "known"), _transaction(bench, "other")])
    empty: dict[str, Any] = {
        "condition": "attribute_exists(amount)",
        "otherwise": SoldOut("none left"),
    }
    verdicts = _commit(
        bench,
        [
            _transaction(bench, "known"),
            _transaction(bench, "other", fingerprint="g"),
            _transaction(bench, "refused", **empty),
            _transaction(bench, "innocent"),
        ],
    )
    assert verdicts[0] == DUPLICATE
    assert verdicts[1].outcome is CommitOutcome.FAILED
    assert verdicts[2].outcome is CommitOutcome.REFUSED
    assert verdicts[3] == UNAFFECTED
    assert [bench.amount(name) for name in ("known", "other", "refused", "innocent")] == [
        1,
        1,
        0,
        0,
    ]


def test_a_write_that_cannot_be_is_found_and_its_neighbours_commit_without_it(bench: Bench) -> None:
    bench.put("guilty", 1)
    innocent = [_transaction(bench, f"t-{n}") for n in range(7)]
    guilty = _transaction(bench, "guilty", values={":by": "no number"})
    verdicts = _commit(bench, [*innocent[:3], guilty, *innocent[3:]])
    if verdicts == [UNATTRIBUTED] * 8:
        verdicts = (
            _commit(bench, innocent[:3]) + _commit(bench, [guilty]) + _commit(bench, innocent[3:])
        )
        assert [*verdicts[:3], *verdicts[4:]] == [COMMITTED] * 7
    else:  # named by its index: also documented
        assert [*verdicts[:3], *verdicts[4:]] == [UNAFFECTED] * 7
        assert _commit(bench, innocent) == [COMMITTED] * 7
    assert verdicts[3].outcome is CommitOutcome.FAILED
    assert [bench.amount(f"t-{n}") for n in range(7)] == [1] * 7
