"""Classifies why DynamoDB cancelled a transaction, reason by reason.

The reasons are in the order of the request, so each one identifies its action. One result for the
whole request would lose messages: the failed condition of one message would make the others look
like duplicates, although they were never committed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from once.commit.dedup_record import StoredRecord
from once.commit.result import (
    BUSY,
    COMMITTED,
    CONTENDED,
    DUPLICATE,
    STALE,
    UNAFFECTED,
    CommitResult,
    failed,
    pending,
    refused,
)
from once.errors import ConditionFailed, InvalidWrite, KeyConflict, RequestRefused
from once.schema import COMMIT_ATTRIBUTE
from once.transaction import Action, ItemVersion, Transaction

Reason = Mapping[str, Any]

_CONDITION = "ConditionalCheckFailed"
_INVALID = {"ValidationError", "ItemCollectionSizeLimitExceeded"}
_CONFLICT = "TransactionConflict"
_THROTTLED = {"ThrottlingError", "ProvisionedThroughputExceeded"}


def classify(
    transaction: Transaction, actions: Collection[Action], reasons: Sequence[Reason]
) -> CommitResult:
    """Return one transaction's result.

    Args:
        transaction: the transaction, whose dedup record comes first in the request.
        actions: its further actions, in the order of the request.
        reasons: the cancellation reasons of the record and of the actions, in that order.
    """
    if reasons[0]["Code"] == _CONDITION:
        if not reasons[0].get("Item"):  # a pending record that was deleted
            return failed(RequestRefused("the effect's record is gone: it will be begun anew"))
        return classify_record(transaction, StoredRecord.read(reasons[0]["Item"]))
    if reasons[0]["Code"] == _CONFLICT:
        return CONTENDED  # an earlier attempt of ours may hold the record and the other items
    if reasons[0]["Code"] in _THROTTLED:
        return BUSY
    codes = {reason["Code"] for reason in reasons}
    if codes & _INVALID:
        writes = "; ".join(_invalid_writes(actions, reasons))
        return failed(InvalidWrite(f"DynamoDB refuses {writes}"))
    if _CONDITION in codes:
        return _classify_conditions(actions, reasons[1:])
    if _CONFLICT in codes:
        return CONTENDED
    if codes & _THROTTLED:
        return BUSY
    if codes == {"None"}:
        return UNAFFECTED
    return failed(RequestRefused(f"DynamoDB cancelled the commit: {', '.join(sorted(codes))}"))


def classify_record(transaction: Transaction, stored: StoredRecord) -> CommitResult:
    """Return the result of a transaction whose dedup record exists already."""
    if stored.commit == transaction.commit_id:
        return COMMITTED  # an earlier attempt of ours, whose answer was lost
    if stored.fingerprint != transaction.identity.fingerprint:
        return failed(KeyConflict(_conflict(stored)))
    if stored.intent is None:
        return DUPLICATE
    if transaction.owned is not None and transaction.owned.owner == stored.intent.owner:
        return CONTENDED  # our own completion has not arrived: commit it again
    return pending(stored.intent, stored.committed_at)


def _conflict(stored: StoredRecord) -> str:
    text = (
        "an event with other content was committed under this key: the producer reused an id, or a "
        "field that may differ is not declared volatile"
    )
    return text if stored.intent is None else f"{text}; of the other, {stored.intent.account}"


def _invalid_writes(actions: Collection[Action], reasons: Sequence[Reason]) -> Iterator[str]:
    writes = ["the dedup record", *(f"the {a.kind} on {a.table.name}" for a in actions)]
    for write, reason in zip(writes, reasons, strict=True):
        if reason["Code"] in _INVALID:
            yield f"{write}: {reason['Code']}, {reason.get('Message') or 'without a message'}"


def _classify_conditions(actions: Collection[Action], reasons: Sequence[Reason]) -> CommitResult:
    pairs = zip(actions, reasons, strict=True)
    failures = [(action, r.get("Item")) for action, r in pairs if r["Code"] == _CONDITION]
    if any(_changed(action, item) for action, item in failures):
        return STALE
    for action, _ in failures:
        if action.otherwise is not None:
            return refused(action.otherwise)
    table = failures[0][0].table.name
    return failed(ConditionFailed(f"the condition of a {failures[0][0].kind} on {table} failed"))


def _changed(action: Action, item: Mapping[str, Any] | None) -> bool:
    """Return whether an item changed after the handler read it.

    A condition of the handler's own that failed has the same reason code.
    """
    if action.read is None:
        return False
    commit = (item or {}).get(COMMIT_ATTRIBUTE, {}).get("S")
    return action.read != ItemVersion(bool(item), commit)
