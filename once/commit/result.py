"""Result of one attempt to commit, for each transaction in the request.

DynamoDB's cancellation reasons are in the order of the request, so each one identifies its action.
One result for the whole request would lose messages: the failed condition of one message would make
the others look like duplicates, although they were never committed.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from once.commit.dedup_record import StoredRecord
from once.effects.ledger import Intent
from once.errors import (
    THROTTLING,
    ConditionFailed,
    Contention,
    InvalidWrite,
    KeyConflict,
    OnceError,
    OutcomeUnknown,
    RequestRefused,
    Throttled,
)
from once.names import COMMIT_ATTRIBUTE
from once.transaction import Transaction
from once.write_expressions import Action, ItemVersion


class CommitOutcome(Enum):
    """The outcome of an attempt, and the next step of the caller."""

    COMMITTED = auto()
    """This attempt's writes are in the tables: acknowledge."""
    DUPLICATE = auto()
    """The event was committed before: acknowledge."""
    REFUSED = auto()
    """A condition with `otherwise` failed: run the refusal, commit that."""
    PENDING = auto()
    """The event's effect has begun before: check whether this delivery may take it over."""
    STALE = auto()
    """An item has changed since the handler read it: run the handler again."""
    CONTENDED = auto()
    """Another transaction was on the same items: try again, after a pause."""
    THROTTLED = auto()
    """DynamoDB lacked capacity for it: try again, after a pause, for as long as there is time."""
    BUSY = auto()
    """DynamoDB has not answered, or not finished: try again, after a pause."""
    UNAFFECTED = auto()
    """Another transaction cancelled the request: commit again without that one."""
    UNATTRIBUTED = auto()
    """The request was refused as a whole, which identifies no cause: commit in smaller groups."""
    FAILED = auto()
    """An error, whose class determines whether the message is retried."""


class CommitResult(Struct, frozen=True):
    """The result of one transaction.

    REFUSED has its refusal and FAILED its error as the `cause`. PENDING has its intent, and `since`
    when its effect began, in milliseconds since the epoch. DUPLICATE has the `answered` record, if
    that has an answer. CONTENDED tells whether the other transaction was on the dedup record.
    """

    outcome: CommitOutcome
    cause: OnceError | None = None
    intent: Intent | None = None
    since: int = 0
    answered: StoredRecord | None = None
    on_record: bool = False


COMMITTED = CommitResult(CommitOutcome.COMMITTED)
DUPLICATE = CommitResult(CommitOutcome.DUPLICATE)
STALE = CommitResult(CommitOutcome.STALE)
CONTENDED = CommitResult(CommitOutcome.CONTENDED)
RECORD_CONTENDED = CommitResult(CommitOutcome.CONTENDED, on_record=True)
THROTTLED = CommitResult(CommitOutcome.THROTTLED)
BUSY = CommitResult(CommitOutcome.BUSY)
UNAFFECTED = CommitResult(CommitOutcome.UNAFFECTED)
UNATTRIBUTED = CommitResult(CommitOutcome.UNATTRIBUTED)


def failed(error: OnceError) -> CommitResult:
    return CommitResult(CommitOutcome.FAILED, error)


_CONTENTION = (Contention, "others kept changing the same items")
_HINDRANCES: Mapping[CommitOutcome, tuple[type[OnceError], str]] = {
    CommitOutcome.CONTENDED: _CONTENTION,
    CommitOutcome.STALE: _CONTENTION,
    CommitOutcome.THROTTLED: (Throttled, "DynamoDB throttled the requests for lack of capacity"),
    CommitOutcome.BUSY: (
        OutcomeUnknown,
        "DynamoDB neither answered the commit nor has a record of it",
    ),
}
HINDRANCES = frozenset(_HINDRANCES)
"""Outcomes that the same message may not have in its next attempt, after a pause."""


def hindered(outcome: CommitOutcome, limit: str) -> OnceError:
    """Return the error of a message that one of `HINDRANCES` kept from its commit, until a limit.

    The limit is a text that names it, such as `until the time was up`.
    """
    kind, text = _HINDRANCES[outcome]
    return kind(f"{text}, {limit}")


Reason = Mapping[str, Any]

_CONDITION = "ConditionalCheckFailed"
_INVALID = {"ValidationError", "ItemCollectionSizeLimitExceeded"}
_CONFLICT = "TransactionConflict"


def classify(
    transaction: Transaction, actions: Collection[Action], reasons: Sequence[Reason]
) -> CommitResult:
    """Return one transaction's result.

    The cancellation reasons are those of its dedup record and of its actions, in that order.
    """
    if reasons[0]["Code"] == _CONDITION:
        if not reasons[0].get("Item"):  # a pending record that was deleted
            return failed(RequestRefused("the effect's record is gone: it will be begun anew"))
        return classify_record(transaction, StoredRecord.read(reasons[0]["Item"]))
    if reasons[0]["Code"] == _CONFLICT:
        return RECORD_CONTENDED  # perhaps by an earlier attempt of ours
    if reasons[0]["Code"] in THROTTLING:
        return THROTTLED
    codes = {reason["Code"] for reason in reasons}
    if codes & _INVALID:
        return failed(_invalid(actions, reasons))
    if _CONDITION in codes:
        return _classify_conditions(actions, reasons[1:])
    if _CONFLICT in codes:
        return CONTENDED
    if codes & THROTTLING:
        return THROTTLED
    if codes == {"None"}:
        return UNAFFECTED
    return failed(RequestRefused(f"DynamoDB cancelled the commit: {', '.join(sorted(codes))}"))


def classify_record(transaction: Transaction, stored: StoredRecord) -> CommitResult:
    """Return the result of a transaction whose dedup record exists already."""
    if stored.commit == transaction.commit_id:
        return COMMITTED  # an earlier attempt of ours, whose answer was lost
    if stored.fingerprint != transaction.identity.fingerprint:
        text = (
            "an event with other content was committed under this key: the producer reused an id, "
            "or a field that may differ is not declared volatile"
        )
        if stored.intent is not None:
            text = f"{text}; of the other, {stored.intent.account}"
        return failed(KeyConflict(text))
    if stored.intent is None:
        if stored.answer is None:
            return DUPLICATE
        return CommitResult(CommitOutcome.DUPLICATE, answered=stored)
    if transaction.owned is not None and transaction.owned.owner == stored.intent.owner:
        return CONTENDED  # our own completion has not arrived: commit it again
    return CommitResult(CommitOutcome.PENDING, intent=stored.intent, since=stored.committed_at)


_VALUES = r"(?s)(AttributeValue: \{\w+:|Input collection \[|numeric value: ).*"


def refusal_text(message: str) -> str:
    """Return what DynamoDB says of a write that it refuses, without the values that it quotes."""
    return re.sub(_VALUES, r"\1…", message)


def _invalid(actions: Collection[Action], reasons: Sequence[Reason]) -> InvalidWrite:
    writes = ["the dedup record", *(f"the {a.kind} on {a.table.name}" for a in actions)]
    invalid = [
        f"{write}: {reason['Code']}, {refusal_text(reason.get('Message') or 'without a message')}"
        for write, reason in zip(writes, reasons, strict=True)
        if reason["Code"] in _INVALID
    ]
    return InvalidWrite(f"DynamoDB refuses {'; '.join(invalid)}")


def _classify_conditions(actions: Collection[Action], reasons: Sequence[Reason]) -> CommitResult:
    pairs = zip(actions, reasons, strict=True)
    failures = [(action, r.get("Item")) for action, r in pairs if r["Code"] == _CONDITION]
    if any(_changed(action, item) for action, item in failures):
        return STALE
    for action, _ in failures:
        if action.otherwise is not None:
            return CommitResult(CommitOutcome.REFUSED, action.otherwise)
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
