"""One commit, whatever DynamoDB answers to it."""

from collections import Counter
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError

from once.commit.result import BUSY, COMMITTED, CONTENDED, DUPLICATE, CommitOutcome, CommitResult
from once.errors import CommitRefused, InvalidWrite, OutcomeUnknown, PermanentError
from once.testing import Fault, answer_lost, cancelled, inject, never_sent, refused
from tests.once.support import Bench, amounts, calls

WRITE, READ = "TransactWriteItems", "BatchGetItem"


def commit(bench: Bench, fault: Fault) -> CommitResult:
    """Commit in a call that meets this fault."""
    with inject(bench.client, WRITE, fault) as left:
        [verdict] = bench.commit(bench.counting())
    assert left == []
    return verdict


def test_state_and_record_are_committed_in_one_request(bench: Bench) -> None:
    with calls(bench.client) as made:
        assert bench.commit(bench.counting()) == [COMMITTED]
    assert [name for name, _ in made] == [WRITE]
    assert amounts(bench.aws) == {"a": 1}
    assert [record["pk"] for record in bench.aws.items("dedup")] == ["notes#a"]


def test_a_duplicate_is_told_without_a_read(bench: Bench) -> None:
    bench.commit(bench.counting())
    with calls(bench.client) as made:
        assert bench.commit(bench.counting()) == [DUPLICATE]
    assert [name for name, _ in made] == [WRITE]
    assert amounts(bench.aws) == {"a": 1}


def test_a_key_conflict_is_told_without_a_read(bench: Bench) -> None:
    bench.commit(bench.counting())
    with calls(bench.client) as made:
        [verdict] = bench.commit(bench.counting(fingerprint="other"))
    assert isinstance(verdict.cause, PermanentError)
    assert [name for name, _ in made] == [WRITE]
    assert amounts(bench.aws) == {"a": 1}


def test_a_transaction_that_meets_its_own_record_is_committed(bench: Bench) -> None:
    # The SDK tried again by itself after an answer that it never saw.
    tx = bench.counting()
    assert bench.commit(tx) == [COMMITTED]
    assert bench.commit(tx) == [COMMITTED]
    assert amounts(bench.aws) == {"a": 1}


def test_the_record_stands_first_and_asks_for_what_is_in_its_way(bench: Bench) -> None:
    with calls(bench.client) as made:
        bench.commit(bench.counting())
    [(_, parameters)] = made
    first = parameters["TransactItems"][0]["Put"]
    assert first["TableName"] == "dedup"
    assert first["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
    assert first["ConditionExpression"].startswith("attribute_not_exists(pk) OR")


def test_an_event_without_writes_is_committed_by_its_record_alone(bench: Bench) -> None:
    assert bench.commit(bench.transaction()) == [COMMITTED]
    assert bench.commit(bench.transaction()) == [DUPLICATE]


PASSING: dict[str, Fault] = {
    "conflict": cancelled("None", "TransactionConflict"),
    "conflict on the record": cancelled("TransactionConflict", "None"),
    "throttled item": cancelled("None", "ThrottlingError"),
    "throttled table": cancelled("None", "ProvisionedThroughputExceeded"),
    "in progress": refused("TransactionInProgressException"),
    "conflict of the request": refused("TransactionConflictException"),
    "throttled request": refused("ThrottlingException"),
    "throughput": refused("ProvisionedThroughputExceededException"),
    "limit of the account": refused("RequestLimitExceeded"),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_contention_is_worth_another_attempt(bench: Bench, fault: Fault) -> None:
    tx = bench.counting()
    with inject(bench.client, WRITE, fault) as left, calls(bench.client) as made:
        conflict = "'Code': 'TransactionConflict'" in str(fault)
        assert bench.commit(tx) == [CONTENDED if conflict else BUSY]
    assert left == []
    assert [name for name, _ in made] == [WRITE]
    assert amounts(bench.aws) == {}
    assert bench.commit(tx) == [COMMITTED]


@pytest.mark.parametrize("code", ["ValidationError", "ItemCollectionSizeLimitExceeded"])
def test_a_write_that_is_never_accepted_is_permanent(bench: Bench, code: str) -> None:
    assert isinstance(commit(bench, cancelled("None", code)).cause, InvalidWrite)


@pytest.mark.parametrize(
    "code",
    [
        "ValidationException",
        "ResourceNotFoundException",
        "ItemCollectionSizeLimitExceededException",
    ],
)
def test_a_request_that_is_never_accepted_is_permanent(bench: Bench, code: str) -> None:
    verdict = commit(bench, refused(code))
    assert isinstance(verdict.cause, InvalidWrite)
    assert str(verdict.cause) == f"DynamoDB refuses a write: {code}, injected: {code}"


def test_an_error_without_a_text_is_named_by_its_code(bench: Bench) -> None:
    error = {"Code": "SerializationException"}
    answer = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}
    verdict = commit(bench, Fault(error=answer))
    assert str(verdict.cause).rstrip(", ") == "DynamoDB refuses a write: SerializationException"


def test_a_table_that_is_not_there_is_permanent(bench: Bench) -> None:
    bench.client.delete_table(TableName="counters")
    [verdict] = bench.commit(bench.counting())
    assert isinstance(verdict.cause, InvalidWrite)
    assert "ResourceNotFoundException" in str(verdict.cause)


@pytest.mark.parametrize(
    "code",
    [
        "AccessDeniedException",
        "UnrecognizedClientException",
        "ExpiredTokenException",
        "IdempotentParameterMismatchException",
        "SomethingNewException",
    ],
)
def test_a_refusal_that_may_pass_is_tried_again_later(bench: Bench, code: str) -> None:
    verdict = commit(bench, refused(code))
    assert isinstance(verdict.cause, CommitRefused)
    assert not isinstance(verdict.cause, PermanentError)
    assert code in str(verdict.cause)


@pytest.mark.parametrize("code", ["AccessDenied", "SomethingNew"])
def test_a_reason_that_nobody_knows_is_never_acknowledged(bench: Bench, code: str) -> None:
    assert isinstance(commit(bench, cancelled("None", code)).cause, CommitRefused)


SILENT: dict[str, Fault] = {
    "never sent": never_sent(),
    "server error": refused("InternalServerError", status=500),
    "unavailable": refused("ServiceUnavailable", status=503),
}


@pytest.mark.parametrize("fault", SILENT.values(), ids=SILENT)
def test_without_an_answer_and_without_a_record_it_is_tried_again(
    bench: Bench, fault: Fault
) -> None:
    with calls(bench.client) as made:
        assert commit(bench, fault) == BUSY
    assert Counter(name for name, _ in made) == {WRITE: 1, READ: 1}
    assert amounts(bench.aws) == {}


def test_an_answer_that_was_lost_is_looked_up_and_found_committed(bench: Bench) -> None:
    with calls(bench.client) as made:
        assert commit(bench, answer_lost()) == COMMITTED
    assert [name for name, _ in made] == [WRITE, READ]
    assert amounts(bench.aws) == {"a": 1}


def test_the_record_is_looked_up_consistently(bench: Bench) -> None:
    with calls(bench.client) as made:
        commit(bench, answer_lost())
    [parameters] = [p for name, p in made if name == READ]
    [(table, asked)] = parameters["RequestItems"].items()
    assert table == "dedup"
    assert asked["ConsistentRead"] is True
    assert asked["Keys"] == [{"pk": {"S": "notes#a"}}]


@pytest.mark.parametrize("fault", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize(
    ("fingerprint", "kind"), [("f", CommitOutcome.DUPLICATE), ("g", CommitOutcome.FAILED)]
)
def test_without_an_answer_a_record_of_another_delivery_decides(
    bench: Bench, fault: Fault, fingerprint: str, kind: CommitOutcome
) -> None:
    bench.commit(bench.counting(fingerprint=fingerprint))
    verdict = commit(bench, fault)
    assert verdict.outcome is kind
    assert amounts(bench.aws) == {"a": 1}


@pytest.mark.parametrize("read", [never_sent(), refused("AccessDeniedException")])
@pytest.mark.parametrize("write", [answer_lost(), never_sent()])
def test_without_an_answer_and_a_look_up_the_outcome_is_unknown(
    bench: Bench, write: Fault, read: Fault
) -> None:
    with inject(bench.client, READ, read) as left:
        verdict = commit(bench, write)
    assert left == []
    assert isinstance(verdict.cause, OutcomeUnknown)
    assert not isinstance(verdict.cause, PermanentError)


def test_after_an_unknown_outcome_the_next_delivery_settles_it(bench: Bench) -> None:
    with inject(bench.client, READ, never_sent()):
        commit(bench, answer_lost())
    assert bench.commit(bench.counting()) == [DUPLICATE]
    assert amounts(bench.aws) == {"a": 1}


def test_a_commit_that_is_late_is_found_by_the_next_attempt(bench: Bench) -> None:
    # Looked up too early, it was absent: then the attempt in flight arrived.
    tx = bench.counting()
    with inject(bench.client, WRITE, never_sent()):
        assert bench.commit(tx) == [BUSY]
    bench.commit(tx)
    assert bench.commit(tx) == [COMMITTED]
    assert amounts(bench.aws) == {"a": 1}


def test_without_credentials_nothing_is_acknowledged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(**_: Any) -> Any:
        raise NoCredentialsError

    monkeypatch.setattr(bench.client, "transact_write_items", missing)
    monkeypatch.setattr(bench.client, "batch_get_item", missing)
    [verdict] = bench.commit(bench.counting())
    assert isinstance(verdict.cause, OutcomeUnknown)
