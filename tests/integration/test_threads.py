"""Parallel deliveries and groups against real, isolated transactions."""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from msgspec.structs import replace

from once.commit.committer import CommitRequest, Committer
from once.settings import Dedup, TableSettings
from once.testing import FakeContext
from tests.integration.probe import Bench, event
from tests.once.item_orders import event as order_event
from tests.once.item_orders import orders
from tests.once.support import record

THREADS = 16


def test_every_event_is_delivered_to_every_thread_and_counted_once(bench: Bench) -> None:
    events = [[event("added", f"counter-{n % 3}")] for n in range(20)]
    bench.deliver_in_parallel([events[n:] + events[:n] for n in range(THREADS)])
    assert sum(bench.amount(f"counter-{n}") for n in range(3)) == 20
    assert bench.outcomes() == ["accepted"] * 20


def test_two_contents_under_one_key_commit_one_and_quarantine_the_other(bench: Bench) -> None:
    first, second = (event("added", "visits", by=by, event_id="e-1") for by in (3, 5))
    bench.deliver_in_parallel([[[first]], [[second]]] * (THREADS // 2))
    assert bench.amount("visits") in (3, 5)
    assert bench.outcomes() == ["accepted"]
    assert bench.reasons() == ["key-conflict"] * (THREADS // 2)


def test_the_last_five_pieces_go_to_five_of_sixteen(bench: Bench) -> None:
    bench.put("tickets", 5)
    bench.deliver_in_parallel([[[event("taken", "tickets")]] for _ in range(THREADS)])
    assert bench.amount("tickets") == 0
    assert bench.outcomes() == ["accepted"] * 5 + ["refused"] * 11


def test_no_update_is_lost_where_sixteen_read_before_they_write(bench: Bench) -> None:
    events = [[[event("read.and.written", "balance")] for _ in range(3)] for _ in range(THREADS)]
    bench.deliver_in_parallel(events)
    assert bench.amount("balance") == 3 * THREADS
    assert bench.outcomes() == ["accepted"] * 3 * THREADS


# Groups that commit in parallel, and a write that is rejected.


def test_the_groups_of_a_round_commit_at_the_same_time(bench: Bench) -> None:
    together = Barrier(4)
    events = bench.runtime.dynamodb.meta.events  # of a client that no other test uses

    def meet(**_: Any) -> None:
        together.wait(timeout=300)

    events.register("before-call.dynamodb.TransactWriteItems", meet)
    assert bench.deliver(*(event("added", f"c-{n}") for n in range(40))) == []
    assert bench.outcomes() == ["accepted"] * 40


def test_an_error_in_one_group_leaves_the_others_committed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [event("added", f"c-{n}") for n in range(40)]
    before, commit = threading.enumerate(), Committer.commit

    def raise_or_commit(committer: Committer, requests: Sequence[CommitRequest]) -> Any:
        if any(request.transaction.event.id == events[12]["id"] for request in requests):
            raise RuntimeError("a bug in one group's commit")
        return commit(committer, requests)

    monkeypatch.setattr(Committer, "commit", raise_or_commit)
    assert len(bench.deliver(*events)) == 10
    assert [bench.amount(f"c-{n}") for n in range(40)] == [1] * 10 + [0] * 10 + [1] * 20
    assert threading.enumerate() == before
    monkeypatch.undo()
    assert bench.deliver(*events, receive_count=2) == []
    assert [bench.amount(f"c-{n}") for n in range(40)] == [1] * 40
    assert bench.reasons() == []


def test_a_write_that_dynamodb_rejects_is_quarantined_alone(bench: Bench) -> None:
    bench.put("visits", 1)
    events = [event("added", "visits"), event("made.wrong", "visits"), event("added", "visits")]
    assert bench.deliver(*events) == []
    assert bench.amount("visits") == 3
    assert bench.reasons() == ["invalid-write"]


# Item dedup: conditions on attributes of a map, plain and in transactions.


@pytest.mark.parametrize("group_size", [1, 10], ids=["alone", "grouped"])
def test_deliveries_in_parallel_commit_once(bench: Bench, group_size: int) -> None:
    table = f"{bench.counters}-orders"
    bench._create(table, "order_id")
    settings = replace(
        bench.settings,
        consumer="orders",
        event_types=("placed", "captured"),
        tables={"orders": TableSettings(table, ("order_id",))},
        group_size=group_size,
        dedup=Dedup.ITEM,
    )
    runtime = replace(bench.runtime, settings=settings)

    def deliver(each: Any) -> None:
        handle, batch = orders().bound_to(runtime), {"Records": [record(json.dumps(each), "m")]}
        while handle(batch, FakeContext(60_000))["batchItemFailures"]:
            pass

    deliver(order_event("placed", "o"))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(deliver, [order_event("captured", "o")] * 4))
    [item] = bench.dynamodb.scan(TableName=table, ConsistentRead=True)["Items"]
    assert item["captured"] == {"N": "5"}
