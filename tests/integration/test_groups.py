"""Groups that commit in parallel, against real, isolated transactions."""

import threading
from collections.abc import Callable, Sequence
from threading import Barrier
from typing import Any

import pytest

from once.commit.committer import CommitRequest, Committer
from once.commit.result import CommitResult
from tests.integration.probe import Bench, event


def test_the_groups_of_a_round_commit_at_the_same_time(bench: Bench) -> None:
    together = Barrier(4)
    events = bench.runtime.dynamodb.meta.events  # of a client that no other test uses

    def meet(**_: Any) -> None:
        together.wait(timeout=300)

    events.register("before-call.dynamodb.TransactWriteItems", meet)
    assert bench.deliver(*(event("added", f"c-{n}") for n in range(40))) == []
    assert bench.outcomes() == ["accepted"] * 40


def failing_for(
    events: Sequence[Any],
) -> Callable[[Committer, Sequence[CommitRequest]], list[CommitResult]]:
    """Return a commit that raises an error if one of these events is in its group."""
    ids, commit = {failing["id"] for failing in events}, Committer.commit

    def raise_or_commit(
        committer: Committer, requests: Sequence[CommitRequest]
    ) -> list[CommitResult]:
        if any(request.transaction.event.id in ids for request in requests):
            raise RuntimeError("a bug in one group's commit")
        return commit(committer, requests)

    return raise_or_commit


def test_an_error_in_one_group_leaves_the_others_committed(
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
