"""Cancellation reasons: each is classified by its index in the request."""

from typing import Any

import pytest

from once.commit.result import (
    COMMITTED,
    CONTENDED,
    DUPLICATE,
    RECORD_CONTENDED,
    STALE,
    THROTTLED,
    UNAFFECTED,
    CommitOutcome,
    CommitResult,
    classify,
)
from once.errors import (
    ConditionFailed,
    InvalidWrite,
    KeyConflict,
    OnceError,
    PermanentError,
    RequestRefused,
    RetryableError,
)
from once.names import COMMIT_ATTRIBUTE
from once.transaction import Transaction
from tests.once.support import COUNTERS, SoldOut, offline

Reason = dict[str, Any]
CONDITION = "ConditionalCheckFailed"


def refused(refusal: SoldOut) -> CommitResult:
    return CommitResult(CommitOutcome.REFUSED, refusal)


def reason(code: str, item: dict[str, Any] | None = None) -> Reason:
    return {"Code": code, "Message": code} | ({"Item": item} if item is not None else {})


def stored(fingerprint: str = "f", commit: str = "another") -> Reason:
    """The reason of a dedup record that exists."""
    item = {
        "fingerprint": {"S": fingerprint},
        "commit": {"S": commit},
        "committed_at": {"N": "1700000000000"},
        "state": {"S": "done"},
        "expires_at": {"N": "2000000000"},
    }
    return reason(CONDITION, item)


NONE = {"Code": "None"}
FAILED, CONFLICT = reason(CONDITION), reason("TransactionConflict")
A, B, C = SoldOut("a"), SoldOut("b"), SoldOut("c")
CONTENTION = {
    "TransactionConflict": CONTENDED,
    "ThrottlingError": THROTTLED,
    "ProvisionedThroughputExceeded": THROTTLED,
}


def writing(*otherwise: SoldOut | None) -> Transaction:
    """A transaction with one conditional write for each of these refusals."""
    tx = offline()
    for i, refusal in enumerate(otherwise):
        terms: Any = {"otherwise": refusal} if refusal else {}
        tx.delete(COUNTERS, {"name": f"n{i}"}, condition="attribute_exists(amount)", **terms)
    return tx


def result_of(tx: Transaction, *reasons: Reason) -> CommitResult:
    return classify(tx, tx.actions().values(), reasons)


def error_of(tx: Transaction, *reasons: Reason) -> OnceError:
    result = result_of(tx, *reasons)
    assert result.outcome is CommitOutcome.FAILED
    assert result.cause is not None
    return result.cause


def at(index: int, code: str, length: int) -> list[Reason]:
    """Reasons of which one has a code."""
    return [reason(code) if i == index else NONE for i in range(length)]


CASES: dict[str, tuple[list[SoldOut | None], list[Reason], CommitResult]] = {
    "no reason": ([None, A], [NONE] * 3, UNAFFECTED),
    "a record with the same content": ([None], [stored(), NONE], DUPLICATE),
    "a business item like a record": ([A], [NONE, stored()], refused(A)),
    "the second refusal": ([A, B, C], at(2, CONDITION, 4), refused(B)),
    "the last refusal": ([A, B, C], at(3, CONDITION, 4), refused(C)),
    "two refusals": ([A, B, C], [NONE, NONE, FAILED, FAILED], refused(B)),
    "a condition, then a refusal": ([None, A], [NONE, FAILED, FAILED], refused(A)),
    "a refusal, then a conflict": ([A, None], [NONE, FAILED, CONFLICT], refused(A)),
    **{
        f"a record before {code}": ([A], [stored(), reason(code)], DUPLICATE)
        for code in (CONDITION, "TransactionConflict", "ValidationError", "ThrottlingError", "New")
    },
    **{
        f"{code} at index {index}": ([A, None], at(index, code, 3), expected)
        for code, expected in CONTENTION.items()
        for index in (1, 2)
    },
    **{
        # An earlier attempt of ours may hold the record, and may have changed other items.
        f"{code} at the record before {refusal!r}": ([refusal], [reason(code), FAILED], expected)
        for code, expected in {**CONTENTION, "TransactionConflict": RECORD_CONTENDED}.items()
        for refusal in (None, A)
    },
}


@pytest.mark.parametrize(("otherwise", "reasons", "expected"), CASES.values(), ids=CASES)
def test_each_reason_is_classified_by_its_index(
    otherwise: list[SoldOut | None], reasons: list[Reason], expected: CommitResult
) -> None:
    assert result_of(writing(*otherwise), *reasons) == expected


def test_a_record_with_the_same_commit_id_is_committed() -> None:
    tx = writing(None)
    assert result_of(tx, stored("other", tx.commit_id), NONE) == COMMITTED


def test_a_record_with_other_content_is_a_key_conflict() -> None:
    error = error_of(writing(None), stored("other"), NONE)
    assert isinstance(error, KeyConflict)
    assert str(error) == (
        "an event with other content was committed under this key: the producer reused an id, or a "
        "field that may differ is not declared volatile"
    )


def test_a_condition_without_otherwise_is_retryable() -> None:
    error = error_of(writing(A, None), NONE, NONE, FAILED)
    assert isinstance(error, ConditionFailed)
    assert isinstance(error, RetryableError)
    assert "Delete on counters" in str(error)


@pytest.mark.parametrize("code", ["ValidationError", "ItemCollectionSizeLimitExceeded"])
@pytest.mark.parametrize("other", [FAILED, CONFLICT, reason("New")])
def test_an_invalid_write_takes_precedence_over_other_reasons(code: str, other: Reason) -> None:
    error = error_of(writing(A, None), NONE, other, reason(code))
    assert isinstance(error, InvalidWrite)
    assert str(error) == f"DynamoDB refuses the Delete on counters: {code}, {code}"


def test_each_invalid_write_is_named_with_its_message() -> None:
    invalid = {"Code": "ValidationError", "Message": "The attribute name is reserved"}
    reasons = [reason("ItemCollectionSizeLimitExceeded"), NONE, invalid]
    assert str(error_of(writing(None, None), *reasons)) == (
        "DynamoDB refuses the dedup record: ItemCollectionSizeLimitExceeded, "
        "ItemCollectionSizeLimitExceeded; the Delete on counters: ValidationError, "
        "The attribute name is reserved"
    )
    assert str(error_of(writing(None), NONE, {"Code": "ValidationError"})) == (
        "DynamoDB refuses the Delete on counters: ValidationError, without a message"
    )


@pytest.mark.parametrize(
    "quoted",
    [
        "lower bound operand: AttributeValue: {S:SECRET}, upper bound",
        "Input collection [SECRET, SECRET] contains duplicates.",
        "The parameter cannot be converted to a numeric value: SECRET",
    ],
)
def test_a_message_of_dynamodb_is_cut_where_it_quotes_a_value(quoted: str) -> None:
    error = error_of(writing(None), NONE, {"Code": "ValidationError", "Message": quoted})
    assert quoted.partition("SECRET")[0].split(": {")[0] in str(error)
    assert "SECRET" not in str(error)


@pytest.mark.parametrize("last", [FAILED, reason("ValidationError")])
def test_a_missing_reason_is_an_error(last: Reason) -> None:
    with pytest.raises(ValueError, match="shorter"):
        result_of(writing(A, None), NONE, last)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("code", ["AccessDenied", "none"])
def test_an_unknown_reason_is_retried(code: str, index: int) -> None:
    error = error_of(writing(None), *at(index, code, 2))
    assert isinstance(error, RequestRefused)
    assert not isinstance(error, PermanentError)
    codes = ", ".join(sorted([code, "None"]))
    assert str(error) == f"DynamoDB cancelled the commit: {codes}"


SEEN = {"name": "seen", COMMIT_ATTRIBUTE: "first"}


def item(commit: str | None) -> dict[str, Any]:
    return {"name": {"S": "seen"}} | ({COMMIT_ATTRIBUTE: {"S": commit}} if commit else {})


def reading(found: Any) -> Transaction:
    """A transaction whose handler has read an item."""
    tx = offline(found)
    tx.get(COUNTERS, {"name": "seen"})
    return tx


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (SEEN, item("second")),
        (SEEN, item(None)),
        (SEEN, None),
        ({"name": "seen"}, item("first")),
        ({"name": "seen"}, None),
        (None, item("first")),
        (None, item(None)),
    ],
)
def test_an_item_that_changed_after_its_read_is_stale(read: Any, found: Any) -> None:
    failed = reason(CONDITION, found)
    assert result_of(reading(read), NONE, failed) == STALE
    tx = reading(read)
    tx.delete(COUNTERS, {"name": "other"}, condition="attribute_exists(x)", otherwise=A)
    assert result_of(tx, NONE, FAILED, failed) == STALE  # it takes precedence over a refusal


@pytest.mark.parametrize(
    ("read", "found"), [(SEEN, item("first")), ({"name": "seen"}, item(None)), (None, None)]
)
@pytest.mark.parametrize("refusal", [A, None])
def test_an_item_that_did_not_change_failed_the_condition_of_the_handler(
    read: Any, found: Any, refusal: SoldOut | None
) -> None:
    tx = reading(read)
    terms: Any = {"otherwise": refusal} if refusal else {}
    tx.put(COUNTERS, {"name": "seen"}, condition="amount > limit", **terms)
    result = result_of(tx, NONE, reason(CONDITION, found))
    assert result.outcome is (CommitOutcome.REFUSED if refusal else CommitOutcome.FAILED)
