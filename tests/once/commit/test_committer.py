"""The committer: one transaction or a group, for each answer of DynamoDB."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from botocore.parsers import ResponseParserError

from once.commit.result import (
    BUSY,
    COMMITTED,
    CONTENDED,
    DUPLICATE,
    RECORD_CONTENDED,
    THROTTLED,
    UNAFFECTED,
    UNATTRIBUTED,
    CommitOutcome,
    CommitResult,
)
from once.errors import KeyConflict, OutcomeUnknown, PermanentError, RequestRefused, Unexpected
from once.testing import Fault, answer_lost, cancelled, inject, never_sent, refused
from tests.once.support import COUNTERS, Bench, Call, SoldOut, amounts, calls

WRITE, READ = "TransactWriteItems", "BatchGetItem"


def commit(bench: Bench, fault: Fault, **options: Any) -> CommitResult:
    """Commit one transaction in a call that meets this fault."""
    with inject(bench.client, WRITE, fault) as left:
        [result] = bench.commit(bench.counting(**options))
    assert left == []
    return result


def operations(made: list[Call]) -> list[str]:
    return [name for name, _ in made]


def test_state_and_record_are_committed_in_one_request(bench: Bench) -> None:
    with calls(bench.client) as made:
        assert bench.commit(bench.counting()) == [COMMITTED]
    assert operations(made) == [WRITE]
    assert amounts(bench.aws) == {"a": 1}
    assert [record["pk"] for record in bench.aws.items("dedup")] == ["notes#a"]
    put = made[0][1]["TransactItems"][0]["Put"]
    assert put["TableName"] == "dedup"
    assert put["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
    assert put["ConditionExpression"].startswith("attribute_not_exists(pk) OR")


@pytest.mark.parametrize(
    ("fingerprint", "outcome"), [("f", CommitOutcome.DUPLICATE), ("g", CommitOutcome.FAILED)]
)
def test_an_existing_record_is_recognised_without_a_read(
    bench: Bench, fingerprint: str, outcome: CommitOutcome
) -> None:
    bench.commit(bench.counting())
    with calls(bench.client) as made:
        [result] = bench.commit(bench.counting(fingerprint=fingerprint))
    assert result.outcome is outcome
    assert operations(made) == [WRITE]
    assert amounts(bench.aws) == {"a": 1}


PASSING: dict[str, tuple[Fault, CommitResult]] = {
    "conflict": (cancelled("None", "TransactionConflict"), CONTENDED),
    "conflict on the record": (cancelled("TransactionConflict", "None"), RECORD_CONTENDED),
    "throttled item": (cancelled("None", "ThrottlingError"), THROTTLED),
    "throttled table": (cancelled("None", "ProvisionedThroughputExceeded"), THROTTLED),
    "in progress": (refused("TransactionInProgressException"), BUSY),
    "conflict of the request": (refused("TransactionConflictException"), CONTENDED),
    "conflict with another Region": (refused("ReplicatedWriteConflictException"), CONTENDED),
    "throttled request": (refused("ThrottlingException"), THROTTLED),
    "throughput": (refused("ProvisionedThroughputExceededException"), THROTTLED),
    "limit of the account": (refused("RequestLimitExceeded"), THROTTLED),
}


@pytest.mark.parametrize(("fault", "expected"), PASSING.values(), ids=PASSING)
def test_contention_is_retried(bench: Bench, fault: Fault, expected: CommitResult) -> None:
    with calls(bench.client) as made:
        assert commit(bench, fault) == expected
    assert operations(made) == [WRITE]
    assert amounts(bench.aws) == {}
    assert bench.commit(bench.counting()) == [COMMITTED]


cancelled_by = partial(cancelled, "None")
INVALID_REQUEST = "InvalidWrite: DynamoDB refuses a write: {0}, injected: {0}"
INVALID_WRITE = "InvalidWrite: DynamoDB refuses the Update on counters: {0}, {0}"
REFUSED = "RequestRefused: DynamoDB refused the commit: {0}"
UNKNOWN_REASON = "RequestRefused: DynamoDB cancelled the commit: {0}, None"


@pytest.mark.parametrize(
    ("fault", "code", "error"),
    [
        (refused, "ValidationException", INVALID_REQUEST),
        (refused, "ItemCollectionSizeLimitExceededException", INVALID_REQUEST),
        (cancelled_by, "ValidationError", INVALID_WRITE),
        (cancelled_by, "ItemCollectionSizeLimitExceeded", INVALID_WRITE),
        (refused, "AccessDeniedException", REFUSED),
        (refused, "ResourceNotFoundException", REFUSED),
        (refused, "UnrecognizedClientException", REFUSED),
        (refused, "ExpiredTokenException", REFUSED),
        (refused, "IdempotentParameterMismatchException", REFUSED),
        (refused, "SomethingNewException", REFUSED),
        (cancelled_by, "AccessDenied", UNKNOWN_REASON),
        (cancelled_by, "ANewReason", UNKNOWN_REASON),
    ],
)
def test_any_other_answer_is_an_error_and_never_acknowledged(
    bench: Bench, fault: Callable[[str], Fault], code: str, error: str
) -> None:
    cause = commit(bench, fault(code)).cause
    assert f"{type(cause).__name__}: {cause}" == error.format(code)
    assert isinstance(cause, PermanentError) == error.startswith("InvalidWrite")


def test_an_error_without_a_message_is_named_by_its_code(bench: Bench) -> None:
    error = {"Code": "SerializationException"}
    answer = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}
    text = str(commit(bench, Fault(error=answer)).cause)
    assert text.rstrip(", ") == "DynamoDB refuses a write: SerializationException"


UNANSWERED = pytest.mark.parametrize(
    "fault",
    [
        pytest.param(never_sent(), id="never sent"),
        pytest.param(refused("InternalServerError", status=500), id="server error"),
    ],
)


@UNANSWERED
def test_a_commit_without_an_answer_or_a_record_is_retried(bench: Bench, fault: Fault) -> None:
    with calls(bench.client) as made:
        assert commit(bench, fault) == BUSY
    assert sorted(operations(made)) == [READ, WRITE]
    assert amounts(bench.aws) == {}


@UNANSWERED
@pytest.mark.parametrize(
    ("fingerprint", "outcome"), [("f", CommitOutcome.DUPLICATE), ("g", CommitOutcome.FAILED)]
)
def test_a_commit_without_an_answer_is_compared_with_the_existing_record(
    bench: Bench, fault: Fault, fingerprint: str, outcome: CommitOutcome
) -> None:
    bench.commit(bench.counting(fingerprint=fingerprint))
    assert commit(bench, fault).outcome is outcome
    assert amounts(bench.aws) == {"a": 1}


def test_a_commit_whose_answer_is_lost_is_found_by_a_consistent_read(bench: Bench) -> None:
    with calls(bench.client) as made:
        assert commit(bench, answer_lost()) == COMMITTED
    assert operations(made) == [WRITE, READ]
    [(table, request)] = made[1][1]["RequestItems"].items()
    assert table == "dedup"
    assert request["ConsistentRead"] is True
    assert request["Keys"] == [{"pk": {"S": "notes#a"}}]
    assert amounts(bench.aws) == {"a": 1}


@pytest.mark.parametrize(
    ("write", "read", "next_result"),
    [
        (answer_lost(), never_sent(), DUPLICATE),
        (never_sent(), refused("AccessDeniedException"), COMMITTED),
    ],
)
def test_an_unknown_outcome_is_settled_by_the_next_delivery(
    bench: Bench, write: Fault, read: Fault, next_result: CommitResult
) -> None:
    with inject(bench.client, READ, read) as left:
        cause = commit(bench, write).cause
    assert left == []
    assert isinstance(cause, OutcomeUnknown)
    assert not isinstance(cause, PermanentError)
    assert bench.commit(bench.counting()) == [next_result]
    assert amounts(bench.aws) == {"a": 1}


def test_a_commit_that_arrives_late_is_found_by_the_next_attempt(bench: Bench) -> None:
    # The look-up found no record; then the attempt in flight arrived.
    tx = bench.counting()
    with inject(bench.client, WRITE, never_sent()):
        assert bench.commit(tx) == [BUSY]
    bench.commit(tx)
    assert bench.commit(tx) == [COMMITTED]
    assert amounts(bench.aws) == {"a": 1}


def test_an_unreadable_answer_is_looked_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    write = bench.client.transact_write_items

    def garbled(**request: Any) -> Any:
        write(**request)
        raise ResponseParserError("not JSON")

    monkeypatch.setattr(bench.client, "transact_write_items", garbled)
    assert bench.commit(bench.counting()) == [COMMITTED]


# Group commit: each transaction in a request has its own result.


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
    with calls(bench.client) as made:
        assert bench.commit(first, last) == [COMMITTED] * 2
    assert [len(parameters["TransactItems"]) for _, parameters in made] == [4]
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
        (refused("ThrottlingException"), [THROTTLED] * 2),
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
        assert bench.commit(long, short, other) == [UNAFFECTED, THROTTLED, UNAFFECTED]


def test_a_transaction_without_reasons_fails(bench: Bench) -> None:
    with inject(bench.client, WRITE, cancelled("None", "None")):
        first, second = bench.commit(bench.counting("a"), bench.counting("b"))
    assert first == UNAFFECTED
    assert isinstance(second.cause, Unexpected)


def test_an_unreadable_record_fails_its_own_transaction_only(bench: Bench) -> None:
    bench.aws.given("dedup", {"pk": "notes#odd", "state": "done"})
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
