"""Groups that commit side by side, against real, isolated transactions."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random
from threading import Barrier
from typing import Any

import pytest

from once.commit.committer import Committer
from once.commit.request import CommitRequest
from once.commit.result import CommitResult
from tests.integration.probe import Bench, event
from tests.integration.storm import WRITE, watched

FUNCTIONS = 4
"""How many run at once, with four threads each."""


def work_off(bench: Bench, batches: Sequence[Sequence[Any]]) -> None:
    """Let functions run at once, each with a batch of its own until nothing of it fails."""
    barrier = Barrier(len(batches))

    def work(batch: Sequence[Any]) -> None:
        barrier.wait()
        while bench.deliver(*batch):
            pass

    with ThreadPoolExecutor(len(batches)) as pool:
        list(pool.map(work, batches))


def shuffled(events: Sequence[Any]) -> list[list[Any]]:
    return [Random(seed).sample(events, len(events)) for seed in range(FUNCTIONS)]


@pytest.mark.parametrize("size", [40, 100])
def test_every_event_counts_once_where_all_functions_have_the_same_batch(
    bench: Bench, size: int
) -> None:
    events = [event("added", "hot" if n % 8 == 0 else f"c-{n % 30}") for n in range(size)]
    with watched(bench.runtime.dynamodb, conflicts=0.1) as seen:
        work_off(bench, shuffled(events))
    counters = {counted["data"]["counter"] for counted in events}
    assert sum(bench.amount(counter) for counter in counters) == size
    assert bench.amount("hot") == len(range(0, size, 8))
    assert bench.outcomes() == ["accepted"] * size
    assert bench.reasons() == []
    assert seen.crowded == []
    assert seen.conflicts > 0
    assert len(seen.threads) > FUNCTIONS
    assert max(map(len, seen.requests)) == 20


def test_no_update_is_lost_where_groups_read_before_they_write(bench: Bench) -> None:
    batches = [
        [event("read.and.written", f"balance-{n % 5}") for n in range(40)] for _ in range(FUNCTIONS)
    ]
    with watched(bench.runtime.dynamodb, conflicts=0.05) as seen:
        work_off(bench, batches)
    assert [bench.amount(f"balance-{n}") for n in range(5)] == [8 * FUNCTIONS] * 5
    assert bench.reasons() == []
    assert seen.crowded == []


def test_the_last_pieces_go_to_as_many_as_there_are(bench: Bench) -> None:
    for n in range(10):
        bench.put(f"ticket-{n}", 7)
    batches = [[event("taken", f"ticket-{n % 10}") for n in range(40)] for _ in range(FUNCTIONS)]
    with watched(bench.runtime.dynamodb, conflicts=0.05) as seen:
        work_off(bench, batches)
    assert [bench.amount(f"ticket-{n}") for n in range(10)] == [0] * 10
    assert bench.outcomes() == ["accepted"] * 70 + ["refused"] * 90
    assert seen.crowded == []


def test_the_groups_of_a_round_are_under_way_at_once(bench: Bench) -> None:
    together = Barrier(4)

    def meet(**_: Any) -> None:
        together.wait(timeout=30)

    name, events = f"before-call.{WRITE}", bench.runtime.dynamodb.meta.events
    events.register(name, meet)
    try:
        assert bench.deliver(*(event("added", f"c-{n}") for n in range(40))) == []
    finally:
        events.unregister(name, meet)
    assert bench.outcomes() == ["accepted"] * 40


def test_with_one_thread_no_other_makes_a_request(bench: Bench) -> None:
    settings = replace(bench.settings, commit_threads=1)
    bench.runtime = replace(bench.runtime, settings=settings)
    with watched(bench.runtime.dynamodb) as seen:
        assert bench.deliver(*(event("added", f"c-{n}") for n in range(40))) == []
    assert [len(items) for items in seen.requests] == [20] * 4
    assert seen.threads == {threading.get_ident()}


def test_no_thread_outlives_its_invocation(bench: Bench) -> None:
    before = threading.enumerate()
    with watched(bench.runtime.dynamodb) as seen:
        assert bench.deliver(*(event("added", f"c-{n}") for n in range(100))) == []
    assert len(seen.threads) > 1
    assert threading.enumerate() == before


def failing_for(
    events: Sequence[Any],
) -> Callable[[Committer, Sequence[CommitRequest]], list[CommitResult]]:
    """Return a commit that breaks where one of these events is in its group."""
    ids, commit = {guilty["id"] for guilty in events}, Committer.commit

    def break_or_commit(
        committer: Committer, requests: Sequence[CommitRequest]
    ) -> list[CommitResult]:
        if any(claim.transaction.event.id in ids for claim in requests):
            raise RuntimeError("a bug in one group's commit")
        return commit(committer, requests)

    return break_or_commit


def test_what_breaks_in_one_group_leaves_the_others_committed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [event("added", f"c-{n}") for n in range(40)]
    before = threading.enumerate()
    monkeypatch.setattr(Committer, "commit", failing_for([events[12]]))
    assert len(bench.deliver(*events)) == 10
    assert [bench.amount(f"c-{n}") for n in range(40)] == [1] * 10 + [0] * 10 + [1] * 20
    assert threading.enumerate() == before
    monkeypatch.undo()
    assert bench.deliver(*events, receive_count=2) == []
    assert [bench.amount(f"c-{n}") for n in range(40)] == [1] * 40
    assert bench.reasons() == []
