"""Several transactions in one request: each gets its own verdict, nobody pays for a neighbour."""

from collections.abc import Sequence
from typing import Any

import pytest
from botocore.parsers import ResponseParserError

from once.commit.result import (
    BUSY,
    COMMITTED,
    CONTENDED,
    DUPLICATE,
    UNAFFECTED,
    UNATTRIBUTED,
    CommitOutcome,
    CommitResult,
)
from once.errors import InvalidWrite, KeyConflict, Unexpected
from once.handlers.transaction import Transaction
from once.testing import answer_lost, cancelled, inject, never_sent, refused
from tests.once.support import COUNTERS, Bench, SoldOut, amounts, calls

WRITE = "TransactWriteItems"


def guilty(bench: Bench, name: str) -> Transaction:
    """A transaction for which DynamoDB refuses the whole request, naming nobody."""
    tx = bench.transaction(name)
    tx.update(COUNTERS, {"name": name}, "NO EXPRESSION")
    return tx


def refusing(bench: Bench, name: str) -> Transaction:
    tx = bench.transaction(name)
    tx.put(COUNTERS, {"name": name}, condition="attribute_exists(amount)", otherwise=SoldOut(name))
    return tx


def kinds(verdicts: Sequence[CommitResult]) -> list[CommitOutcome]:
    return [verdict.outcome for verdict in verdicts]


def test_transactions_of_several_events_are_one_request(bench: Bench) -> None:
    with calls(bench.client) as made:
        assert bench.commit(*(bench.counting(name) for name in "abc")) == [COMMITTED] * 3
    assert [len(p["TransactItems"]) for _, p in made] == [6]
    assert amounts(bench.aws) == {"a": 1, "b": 1, "c": 1}


def test_each_transaction_of_a_request_has_its_own_verdict(bench: Bench) -> None:
    bench.commit(bench.counting("duplicate"), bench.counting("conflict"))
    verdicts = bench.commit(
        bench.counting("first"),
        bench.counting("duplicate"),
        bench.counting("conflict", fingerprint="other"),
        refusing(bench, "refusing"),
        bench.counting("last"),
    )
    failed, refused_ = CommitOutcome.FAILED, CommitOutcome.REFUSED
    assert verdicts[:2] == [UNAFFECTED, DUPLICATE]
    assert kinds(verdicts[2:]) == [failed, refused_, CommitOutcome.UNAFFECTED]
    assert isinstance(verdicts[2].cause, KeyConflict)
    assert str(verdicts[3].cause) == "refusing"
    assert amounts(bench.aws) == {"duplicate": 1, "conflict": 1}


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_duplicate_makes_no_duplicates_of_its_neighbours(bench: Bench, position: int) -> None:
    bench.commit(bench.counting("duplicate"))
    transactions = [bench.counting(name) for name in "abc"]
    transactions[position] = bench.counting("duplicate")
    expected = [UNAFFECTED] * 3
    expected[position] = DUPLICATE
    assert bench.commit(*transactions) == expected


def test_the_innocent_are_committed_without_the_guilty(bench: Bench) -> None:
    innocent = bench.counting("innocent")
    assert kinds(bench.commit(refusing(bench, "r"), innocent)) == [
        CommitOutcome.REFUSED,
        CommitOutcome.UNAFFECTED,
    ]
    assert bench.commit(innocent) == [COMMITTED]
    assert amounts(bench.aws) == {"innocent": 1}


def test_contention_is_that_of_the_transaction_that_met_it(bench: Bench) -> None:
    with inject(bench.client, WRITE, cancelled("None", "None", "None", "TransactionConflict")):
        verdicts = bench.commit(bench.counting("a"), bench.counting("b"))
    assert verdicts == [UNAFFECTED, CONTENDED]


def test_reasons_are_told_apart_where_transactions_differ_in_length(bench: Bench) -> None:
    long = bench.counting("long")
    long.put(COUNTERS, {"name": "more"})
    long.put(COUNTERS, {"name": "most"})
    short, none = bench.transaction("short"), bench.counting("none")
    codes = ["None", "None", "None", "None", "ThrottlingError", "None", "None"]
    with inject(bench.client, WRITE, cancelled(*codes)):
        assert bench.commit(long, short, none) == [UNAFFECTED, BUSY, UNAFFECTED]


def test_a_cancellation_that_names_nobody_is_tried_again_after_a_pause(bench: Bench) -> None:
    # All innocent, they would go again at once, and for ever.
    with inject(bench.client, WRITE, cancelled(*["None"] * 4)):
        assert bench.commit(bench.counting("a"), bench.counting("b")) == [BUSY] * 2


def test_a_transaction_without_reasons_has_failed_and_is_not_guessed_at(bench: Bench) -> None:
    with inject(bench.client, WRITE, cancelled("None", "None")):
        first, second = bench.commit(bench.counting("a"), bench.counting("b"))
    assert first == UNAFFECTED
    assert isinstance(second.cause, Unexpected)


def test_a_request_refused_as_a_whole_names_nobody(bench: Bench) -> None:
    with calls(bench.client) as made:
        verdicts = bench.commit(guilty(bench, "guilty"), bench.counting("a"), bench.counting("b"))
    assert verdicts == [UNATTRIBUTED] * 3
    assert len(made) == 1
    [alone] = bench.commit(guilty(bench, "guilty"))
    assert isinstance(alone.cause, InvalidWrite)


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "SerializationException", "SomethingNew"]
)
def test_what_one_may_be_to_blame_for_names_nobody(bench: Bench, code: str) -> None:
    with inject(bench.client, WRITE, refused(code)):
        assert bench.commit(bench.counting("a"), bench.counting("b")) == [UNATTRIBUTED] * 2


def test_a_record_that_cannot_be_read_is_its_own_messages_fault(bench: Bench) -> None:
    bench.aws.put("dedup", {"pk": "notes#odd", "state": "done"})
    verdicts = bench.commit(bench.counting("odd"), bench.counting("a"))
    assert isinstance(verdicts[0].cause, Unexpected)
    assert verdicts[1] == UNAFFECTED
    found = bench.committer.look_up([bench.counting("odd"), bench.counting("a")])
    assert isinstance(found[0] and found[0].cause, Unexpected)
    assert found[1] is None


def test_a_key_may_be_asked_for_twice(bench: Bench) -> None:
    bench.commit(bench.counting("a"))
    again = [bench.counting("a"), bench.counting("a")]
    assert bench.committer.look_up(again) == [DUPLICATE] * 2


@pytest.mark.parametrize("code", ["ThrottlingException", "TransactionInProgressException"])
def test_contention_of_the_request_is_everyones(bench: Bench, code: str) -> None:
    with inject(bench.client, WRITE, refused(code)):
        assert bench.commit(bench.counting("a"), bench.counting("b")) == [BUSY] * 2


def test_a_refusal_that_may_pass_is_everyones(bench: Bench) -> None:
    with inject(bench.client, WRITE, refused("ExpiredTokenException")):
        verdicts = bench.commit(bench.counting("a"), bench.counting("b"))
    assert kinds(verdicts) == [CommitOutcome.FAILED] * 2


def test_without_an_answer_each_record_is_looked_up(bench: Bench) -> None:
    bench.commit(bench.counting("duplicate"))
    transactions = [bench.counting("a"), bench.counting("duplicate"), bench.counting("b")]
    with inject(bench.client, WRITE, never_sent()):
        assert bench.commit(*transactions) == [BUSY, DUPLICATE, BUSY]


def test_an_answer_that_was_lost_is_everyones_commit(bench: Bench) -> None:
    with inject(bench.client, WRITE, answer_lost()):
        assert bench.commit(bench.counting("a"), bench.counting("b")) == [COMMITTED] * 2
    assert amounts(bench.aws) == {"a": 1, "b": 1}


def test_an_answer_that_cannot_be_read_is_looked_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_it = bench.client.transact_write_items

    def garbled(**request: Any) -> Any:
        commit_it(**request)
        raise ResponseParserError("not JSON")

    monkeypatch.setattr(bench.client, "transact_write_items", garbled)
    assert bench.commit(bench.counting()) == [COMMITTED]
