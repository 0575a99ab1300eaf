"""Groups that commit in parallel, and a write that is rejected, against real transactions."""

import threading
from collections.abc import Sequence
from threading import Barrier
from typing import Any

import pytest

from once.commit.committer import CommitRequest, Committer
from tests.integration.probe import Bench, event


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
