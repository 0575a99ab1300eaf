"""Commit: stored records, cancellation reasons, and the results of a group commit."""

from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from botocore.exceptions import ClientError, ReadTimeoutError

from once.commit.committer import CommitRequest, Committer
from once.commit.dedup_record import StoredRecord
from once.commit.result import CommitOutcome, CommitResult, classify
from once.effects.ledger import Intent
from once.errors import InvalidWrite, KeyConflict, PermanentError, RequestRefused
from once.names import CLOCK_MARGIN_SECONDS, Record, State
from proof.fuzz import items, values
from proof.fuzz.items import CONDITION, Item
from proof.fuzz.target import expect

CANCELED = "TransactionCanceledException"
NOW = 1_700_000_000.0
_RECORD_ERRORS = (KeyError, ValueError)
"""For an attribute that is missing, has another type, or an unknown value."""
_OTHER_CODES = (
    *("TransactionInProgressException", "ThrottlingException", "ValidationException", "Unknown"),
    *("ResourceNotFoundException", "AccessDeniedException", "ExpiredTokenException", ""),
)
_PROVEN = {CommitOutcome.COMMITTED, CommitOutcome.DUPLICATE, CommitOutcome.PENDING}
_BY_CONDITION = {CommitOutcome.REFUSED, CommitOutcome.STALE}


def check_stored(item: Item) -> None:
    """Compare a dedup record with the item from which it was read."""
    try:
        record = StoredRecord.read(item)
    except _RECORD_ERRORS:
        return
    expect(item[Record.FINGERPRINT] == {"S": record.fingerprint}, "a fingerprint is as stored")
    expect(item[Record.COMMIT] == {"S": record.commit}, "a commit id is as stored")
    is_pending = item[Record.STATE] == {"S": State.PENDING}
    expect((record.intent is not None) == is_pending, "a pending record has an intent")
    lasts = record.expires_at is not None or not record.expired(2**40)
    expect(lasts, "a record without an expiry never expires")
    if record.intent is not None:
        expect(Intent.read(record.intent.item()) == record.intent, "an intent is read back")


def check_cancellation(case: dict[str, Any]) -> None:
    """Classify a cancelled transaction whose reasons have the documented form."""
    tx = items.transaction(0, case["actions"])
    reasons = case["reasons"]
    try:
        result = classify(tx, tx.actions().values(), reasons)
    except _RECORD_ERRORS:
        expect(reasons[0]["Code"] == CONDITION, "only an existing record can be unreadable")
    else:
        _check_result(result, reasons)


def _check_result(result: CommitResult, reasons: list[Any]) -> None:
    """Compare a result with the reasons of its own record (the first) and of its own actions."""
    codes = [reason.get("Code") for reason in reasons]
    shown = reasons[0].get("Item") if codes and codes[0] == CONDITION else None
    record: Item = shown or {}
    same_content = record.get(Record.FINGERPRINT) == {"S": items.OWN}
    is_pending = record.get(Record.STATE) == {"S": State.PENDING}
    match result.outcome:
        case CommitOutcome.COMMITTED:
            own = record.get(Record.COMMIT) == {"S": items.OWN_COMMIT}
            expect(own, "a commit is shown by the record")
        case CommitOutcome.DUPLICATE:
            expect(same_content and not is_pending, "a duplicate is shown by the record")
        case CommitOutcome.PENDING:
            expect(same_content and is_pending, "a pending record is shown by the record")
        case CommitOutcome.UNAFFECTED:
            expect({*codes} == {"None"}, "a transaction with a reason is not unaffected")
        case outcome:
            expect({*codes} != {"None"}, "a transaction without a reason is unaffected")
            by_condition = outcome not in _BY_CONDITION or CONDITION in codes[1:]
            expect(by_condition, "a refusal or a stale read is a failed condition")
    if result.outcome is CommitOutcome.FAILED:
        _check_cause(result.cause, record, codes)


def _check_cause(cause: Any, record: Item, codes: list[Any]) -> None:
    if isinstance(cause, KeyConflict):
        other = record.get(Record.FINGERPRINT, {"S": items.OWN}) != {"S": items.OWN}
        expect(other, "a key conflict is another fingerprint")
    elif isinstance(cause, InvalidWrite):
        expect(bool({*codes} & {*items.INVALID}), "DynamoDB says that a write is invalid")
    else:
        permanent = cause is None or isinstance(cause, PermanentError)
        expect(not permanent, "every other failure has a cause that can be retried")
    if isinstance(cause, RequestRefused) and codes[0] == CONDITION:
        expect(not record, "an existing record is read")


def draw_cancellation(rng: Random) -> dict[str, Any]:
    """Return the actions of a transaction, and its cancellation reasons."""
    actions = items.actions(rng)
    return {"actions": actions, "reasons": items.reasons(rng, actions)}


def check_group(case: dict[str, Any]) -> None:
    """Commit a group whose request has this answer, and compare each result with the answer."""
    client: Any = SimpleNamespace(
        meta=Mock(),
        transact_write_items=lambda **_: _raise(case["answer"]),
        batch_get_item=lambda **_: {"Responses": {"dedup": case["found"]}},
    )
    committer = Committer(client, items.SETTINGS, lambda: NOW)
    group = [
        committer.request(items.transaction(number, actions), NOW)
        for number, actions in enumerate(case["group"])
    ]
    results = committer.commit(group)
    expect(len(results) == len(group), "every request has a result")
    if case["answer"] is not None and case["answer"]["code"] == CANCELED:
        _check_own_reasons(group, results, case["answer"]["reasons"])
    else:
        _check_looked_up(group, results, case["found"])


def _check_own_reasons(
    group: list[CommitRequest], results: list[CommitResult], reasons: list[Any]
) -> None:
    """Each result follows from its own part of the reasons; an incomplete part proves little."""
    if all(result.outcome is CommitOutcome.BUSY for result in results):
        return
    start = 0
    for request, result in zip(group, results, strict=True):
        own = reasons[start : start + len(request.entries)]
        start += len(request.entries)
        readable = all(isinstance(reason, dict) and "Code" in reason for reason in own)
        if readable and len(own) == len(request.entries):
            _check_result(result, own)
        elif result.outcome in _PROVEN:
            _check_result(result, own[:1])  # the record's own reason, which is complete
        else:
            unaffected = result.outcome is CommitOutcome.UNAFFECTED
            expect(not unaffected, "a transaction without all its reasons is not unaffected")


def _check_looked_up(
    group: list[CommitRequest], results: list[CommitResult], found: list[Item]
) -> None:
    records = {item[Record.PK]["S"]: item for item in found}
    for request, result in zip(group, results, strict=True):
        unaffected = result.outcome is CommitOutcome.UNAFFECTED
        expect(not unaffected, "a transaction is not unaffected without reasons")
        if result.outcome in _PROVEN:
            item = records.get(request.transaction.identity.pk, {})
            expect(item != {}, "a committed transaction has a record")
            expires = item.get(Record.EXPIRES_AT, {"N": NOW})["N"]
            expect(int(expires) >= NOW - CLOCK_MARGIN_SECONDS, "an expired record does not count")
            _check_result(result, [{"Code": CONDITION, "Item": item}])


def _raise(answer: dict[str, Any] | None) -> None:
    if answer is None:
        raise ReadTimeoutError(endpoint_url="dynamodb")
    response: Any = {
        "Error": {"Code": answer["code"], "Message": "m"},
        "ResponseMetadata": {"HTTPStatusCode": answer["status"]},
        "CancellationReasons": answer["reasons"],
    }
    raise ClientError(response, "TransactWriteItems")


def draw_group(rng: Random) -> dict[str, Any]:
    """Return a group, the answer to its request, and the records that a look-up finds."""
    group = [items.actions(rng) for _ in range(rng.randint(1, 4))]
    found = [
        items.dedup_record(rng, number=number, commit=items.OWN_COMMIT)
        for number in range(len(group))
        if rng.random() < 0.5
    ]
    return {"group": group, "answer": _answer(rng, group), "found": found}


def _answer(rng: Random, group: list[list[str]]) -> dict[str, Any] | None:
    """Return an answer, None for no answer. One in four cancellations has a wrong form."""
    pick = rng.random()
    if pick < 0.1:
        return None
    if pick < 0.3:
        return {"code": rng.choice(_OTHER_CODES), "status": rng.choice((400, 500)), "reasons": []}
    reasons = [reason for actions in group for reason in items.reasons(rng, actions)]
    if pick < 0.4:
        reasons = reasons[: rng.randint(0, len(reasons))]
    elif pick < 0.47:
        reasons += reasons[: rng.randint(1, len(reasons))]
    elif pick < 0.54:
        wrong: tuple[Any, ...] = (None, {}, "None", values.value(rng))
        reasons[rng.randrange(len(reasons))] = rng.choice(wrong)
    return {"code": CANCELED, "status": 400, "reasons": reasons}
