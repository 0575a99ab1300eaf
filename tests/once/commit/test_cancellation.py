"""Cancellation reasons, each read at its own index."""

from typing import Any

import pytest

from once.commit._cancellation import classify
from once.commit.result import (
    BUSY,
    COMMITTED,
    CONTENDED,
    DUPLICATE,
    UNAFFECTED,
    CommitOutcome,
    CommitResult,
)
from once.errors import (
    CommitRefused,
    ConditionFailed,
    InvalidWrite,
    KeyConflict,
    OnceError,
    PermanentError,
    RetryableError,
)
from once.handlers.transaction import Transaction
from tests.once.support import COUNTERS, SoldOut, offline

FAILED = "ConditionalCheckFailed"
NONE = {"Code": "None"}


def reason(code: str, item: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"Code": code, "Message": code} | ({"Item": item} if item is not None else {})


def stored(fingerprint: str = "f", commit: str = "another") -> dict[str, Any]:
    return {
        "fingerprint": {"S": fingerprint},
        "commit": {"S": commit},
        "committed_at": {"N": "1700000000000"},
        "state": {"S": "done"},
        "expires_at": {"N": "2000000000"},
    }


def writing(*otherwise: SoldOut | None) -> Transaction:
    """A transaction with one conditional write for each of these."""
    tx = offline()
    for i, refusal in enumerate(otherwise):
        terms: Any = {"otherwise": refusal} if refusal else {}
        tx.delete(COUNTERS, {"name": f"n{i}"}, condition="attribute_exists(amount)", **terms)
    return tx


def verdict(tx: Transaction, *reasons: dict[str, Any]) -> CommitResult:
    return classify(tx, tx.actions().values(), reasons)


def error(tx: Transaction, *reasons: dict[str, Any]) -> OnceError:
    found = verdict(tx, *reasons)
    assert found.outcome is CommitOutcome.FAILED
    assert found.cause is not None
    return found.cause


def test_a_record_of_the_same_content_is_a_duplicate() -> None:
    assert verdict(writing(None), reason(FAILED, stored()), NONE) == DUPLICATE


def test_a_record_of_other_content_is_a_key_conflict() -> None:
    found = error(writing(None), reason(FAILED, stored("other")), NONE)
    assert isinstance(found, KeyConflict)
    assert "the producer reused an id" in str(found)


@pytest.mark.parametrize("fingerprint", ["f", "other"])
def test_a_record_of_this_very_commit_is_a_commit(fingerprint: str) -> None:
    tx = writing(None)
    assert verdict(tx, reason(FAILED, stored(fingerprint, tx.commit_id)), NONE) == COMMITTED


@pytest.mark.parametrize(
    "other", [FAILED, "TransactionConflict", "ValidationError", "ThrottlingError", "Whatever"]
)
def test_a_record_in_the_way_decides_before_any_other_reason(other: str) -> None:
    tx = writing(SoldOut())
    assert verdict(tx, reason(FAILED, stored()), reason(other)) == DUPLICATE


def test_a_condition_with_otherwise_is_that_refusal() -> None:
    refusal = SoldOut("n0")
    assert verdict(writing(refusal), NONE, reason(FAILED)) == CommitResult(
        CommitOutcome.REFUSED, refusal
    )


@pytest.mark.parametrize("index", [0, 1, 2])
def test_the_index_tells_which_refusal_it_is(index: int) -> None:
    refusals = [SoldOut(str(i)) for i in range(3)]
    reasons = [NONE] * 4
    reasons[1 + index] = reason(FAILED)
    assert verdict(writing(*refusals), *reasons).cause is refusals[index]


def test_of_several_refusals_the_first_one_counts() -> None:
    refusals = [SoldOut("0"), SoldOut("1"), SoldOut("2")]
    found = verdict(writing(*refusals), NONE, NONE, reason(FAILED), reason(FAILED))
    assert found.cause is refusals[1]


def test_a_refusal_comes_before_a_condition_without_otherwise() -> None:
    refusal = SoldOut()
    found = verdict(writing(None, refusal), NONE, reason(FAILED), reason(FAILED))
    assert found.cause is refusal


def test_a_condition_without_otherwise_is_worth_another_try() -> None:
    found = error(writing(SoldOut(), None), NONE, NONE, reason(FAILED))
    assert isinstance(found, ConditionFailed)
    assert isinstance(found, RetryableError)
    assert "Delete on counters" in str(found)


def test_a_condition_on_an_item_that_exists_is_no_duplicate() -> None:
    # What is in the way here looks like the record, and is a business item.
    found = verdict(writing(SoldOut()), NONE, reason(FAILED, stored()))
    assert found.outcome is CommitOutcome.REFUSED


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("TransactionConflict", CONTENDED),
        ("ThrottlingError", BUSY),
        ("ProvisionedThroughputExceeded", BUSY),
    ],
)
def test_contention_on_any_item_is_tried_again(
    code: str, expected: CommitResult, index: int
) -> None:
    reasons = [NONE] * 3
    reasons[index] = reason(code)
    assert verdict(writing(SoldOut(), None), *reasons) == expected


def test_a_refusal_beside_contention_is_a_refusal() -> None:
    found = verdict(writing(SoldOut(), None), NONE, reason(FAILED), reason("TransactionConflict"))
    assert found.outcome is CommitOutcome.REFUSED


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("code", ["ValidationError", "ItemCollectionSizeLimitExceeded"])
def test_what_dynamodb_can_never_accept_is_permanent(code: str, index: int) -> None:
    reasons = [NONE, NONE]
    reasons[index] = reason(code)
    found = error(writing(None), *reasons)
    assert isinstance(found, InvalidWrite)
    assert code in str(found)


def test_every_write_that_dynamodb_can_never_accept_is_named_with_its_message() -> None:
    invalid = {"Code": "ValidationError", "Message": "The attribute name is reserved"}
    reasons = [reason("ItemCollectionSizeLimitExceeded"), NONE, invalid]
    assert str(error(writing(None, None), *reasons)) == (
        "DynamoDB refuses the dedup record: ItemCollectionSizeLimitExceeded, "
        "ItemCollectionSizeLimitExceeded; the Delete on counters: ValidationError, "
        "The attribute name is reserved"
    )


def test_a_refusal_of_dynamodb_without_a_message_is_named_all_the_same() -> None:
    found = error(writing(None), NONE, {"Code": "ValidationError"})
    assert str(found) == (
        "DynamoDB refuses the Delete on counters: ValidationError, without a message"
    )


@pytest.mark.parametrize("other", [FAILED, "TransactionConflict", "Whatever"])
def test_what_can_never_be_accepted_decides_before_what_may_pass(other: str) -> None:
    tx = writing(SoldOut(), None)
    assert isinstance(error(tx, NONE, reason(other), reason("ValidationError")), InvalidWrite)


def test_reasons_that_do_not_match_the_actions_are_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="shorter"):
        verdict(writing(SoldOut(), None), NONE, reason(FAILED))


@pytest.mark.parametrize("actions", [0, 1, 5])
def test_without_a_reason_of_its_own_a_transaction_is_innocent(actions: int) -> None:
    assert verdict(writing(*[None] * actions), *[NONE] * (actions + 1)) == UNAFFECTED


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("code", ["AccessDenied", "DuplicateItem", "Unknown", "", "none"])
def test_a_reason_that_nobody_knows_is_tried_again_later(code: str, index: int) -> None:
    reasons = [NONE, NONE]
    reasons[index] = reason(code)
    found = error(writing(None), *reasons)
    assert isinstance(found, CommitRefused)
    assert not isinstance(found, PermanentError)
    codes = ", ".join(sorted([code, "None"]))
    assert str(found) == f"DynamoDB cancelled the commit: {codes}"


@pytest.mark.parametrize(
    ("code", "expected"), [("TransactionConflict", CONTENDED), ("ThrottlingError", BUSY)]
)
def test_contention_at_the_record_decides_first(code: str, expected: CommitResult) -> None:
    # An earlier attempt of ours may hold the record, and have changed what the condition asks.
    assert verdict(writing(None), reason(code), reason(FAILED)) == expected
    assert verdict(writing(SoldOut("x")), reason(code), reason(FAILED)) == expected
