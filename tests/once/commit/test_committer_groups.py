"""Group commit: each transaction in a request has its own result."""

from typing import Any

import pytest

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
from once.errors import InvalidWrite, KeyConflict, RequestRefused, Unexpected
from once.testing import Fault, answer_lost, cancelled, inject, never_sent, refused
from once.transaction import Transaction
from tests.once.support import COUNTERS, Bench, SoldOut, amounts, calls

WRITE = "TransactWriteItems"


def invalid(bench: Bench) -> Transaction:
    """A transaction for which DynamoDB refuses the whole request, without a reason."""
    tx = bench.transaction("invalid")
    tx.update(COUNTERS, {"name": "invalid"}, "NO EXPRESSION")
    return tx


def test_several_transactions_are_committed_in_one_request(bench: Bench) -> None:
    with calls(bench.client) as made:
        assert bench.commit(*(bench.counting(name) for name in "abc")) == [COMMITTED] * 3
    assert [len(p["TransactItems"]) for _, p in made] == [6]
    assert amounts(bench.aws) == {"a": 1, "b": 1, "c": 1}


def test_a_failing_transaction_leaves_the_others_unaffected(bench: Bench) -> None:
    bench.commit(bench.counting("duplicate"), bench.counting("conflict"))
    first, last = bench.counting("first"), bench.counting("last")
    duplicate, other = bench.counting("duplicate"), bench.counting("conflict", fingerprint="other")
    refusing = bench.transaction("refusing")
    terms: Any = {"condition": "attribute_exists(amount)", "otherwise": SoldOut()}
    refusing.put(COUNTERS, {"name": "refusing"}, **terms)
    results = bench.commit(first, duplicate, other, refusing, last)
    assert results[:2] == [UNAFFECTED, DUPLICATE]
    assert results[2].outcome is CommitOutcome.FAILED
    assert isinstance(results[2].cause, KeyConflict)
    assert results[3:] == [CommitResult(CommitOutcome.REFUSED, terms["otherwise"]), UNAFFECTED]
    assert amounts(bench.aws) == {"duplicate": 1, "conflict": 1}
    assert bench.commit(first, last) == [COMMITTED] * 2
    assert amounts(bench.aws) == {"duplicate": 1, "conflict": 1, "first": 1, "last": 1}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (cancelled("None", "None", "None", "TransactionConflict"), [UNAFFECTED, CONTENDED]),
        # UNAFFECTED for both would be committed again at once, forever.
        (cancelled(*["None"] * 4), [BUSY] * 2),
        (refused("AccessDeniedException"), [UNATTRIBUTED] * 2),
        (refused("SerializationException"), [UNATTRIBUTED] * 2),
        (refused("SomethingNew"), [UNATTRIBUTED] * 2),
        (refused("ThrottlingException"), [BUSY] * 2),
        (refused("TransactionInProgressException"), [BUSY] * 2),
        (answer_lost(), [COMMITTED] * 2),
    ],
)
def test_an_answer_gives_each_transaction_its_result(
    bench: Bench, fault: Fault, expected: list[CommitResult]
) -> None:
    with inject(bench.client, WRITE, fault):
        assert bench.commit(bench.counting("a"), bench.counting("b")) == expected
    assert amounts(bench.aws) == ({"a": 1, "b": 1} if COMMITTED in expected else {})


def test_an_error_of_the_credentials_fails_every_transaction(bench: Bench) -> None:
    with inject(bench.client, WRITE, refused("ExpiredTokenException")):
        results = bench.commit(bench.counting("a"), bench.counting("b"))
    assert [result.outcome for result in results] == [CommitOutcome.FAILED] * 2
    assert all(isinstance(result.cause, RequestRefused) for result in results)


def test_transactions_of_different_lengths_get_their_own_reasons(bench: Bench) -> None:
    long = bench.counting("long")
    long.put(COUNTERS, {"name": "more"})
    long.put(COUNTERS, {"name": "most"})
    short, other = bench.transaction("short"), bench.counting("other")
    codes = ["None", "None", "None", "None", "ThrottlingError", "None", "None"]
    with inject(bench.client, WRITE, cancelled(*codes)):
        assert bench.commit(long, short, other) == [UNAFFECTED, BUSY, UNAFFECTED]


def test_a_transaction_without_reasons_fails(bench: Bench) -> None:
    with inject(bench.client, WRITE, cancelled("None", "None")):
        first, second = bench.commit(bench.counting("a"), bench.counting("b"))
    assert first == UNAFFECTED
    assert isinstance(second.cause, Unexpected)


def test_a_request_refused_as_a_whole_identifies_no_cause(bench: Bench) -> None:
    with calls(bench.client) as made:
        results = bench.commit(invalid(bench), bench.counting("a"), bench.counting("b"))
    assert results == [UNATTRIBUTED] * 3
    assert len(made) == 1
    [alone] = bench.commit(invalid(bench))
    assert isinstance(alone.cause, InvalidWrite)


def test_an_unreadable_record_fails_its_own_transaction_only(bench: Bench) -> None:
    bench.aws.put("dedup", {"pk": "notes#odd", "state": "done"})
    transactions = [bench.counting("odd"), bench.counting("a")]
    odd, other = bench.commit(*transactions)
    assert isinstance(odd.cause, Unexpected)
    assert other == UNAFFECTED
    found = bench.committer.look_up(transactions)
    assert isinstance(found[0] and found[0].cause, Unexpected)
    assert found[1] is None


def test_a_key_is_looked_up_twice(bench: Bench) -> None:
    bench.commit(bench.counting("a"))
    again = [bench.counting("a"), bench.counting("a")]
    assert bench.committer.look_up(again) == [DUPLICATE] * 2


def test_each_record_is_looked_up_if_there_is_no_answer(bench: Bench) -> None:
    bench.commit(bench.counting("duplicate"))
    transactions = [bench.counting("a"), bench.counting("duplicate"), bench.counting("b")]
    with inject(bench.client, WRITE, never_sent()):
        assert bench.commit(*transactions) == [BUSY, DUPLICATE, BUSY]
