"""`once.commit._cancellation.classify`: a verdict follows from the transaction's own reasons."""

from random import Random
from typing import Any

from once.commit._cancellation import classify
from once.commit.result import CommitOutcome, CommitResult
from once.errors import CommitRefused, InvalidWrite, KeyConflict, PermanentError
from once.schema import Record, State
from proof.fuzz import claims, items
from proof.fuzz.parsers.stored import LISTED
from proof.fuzz.target import Target, claim

_HEALTHY = {"None"}


def check(case: dict[str, Any]) -> None:
    """Judge a transaction whose reasons have the form of DynamoDB's."""
    tx = claims.transaction(0, case["kinds"])
    tx.commit_id = "mine"
    try:
        verdict = classify(tx, tx.actions().values(), case["reasons"])
    except LISTED:  # what is in the record's place cannot be read
        claim(case["reasons"][0]["Code"] == claims.CONDITION, "all reasons but a record's are read")
    else:
        check_verdict(verdict, case["reasons"])


def check_verdict(verdict: CommitResult, reasons: list[Any]) -> None:
    """Hold a verdict against the reasons of the transaction's own record and actions.

    Args:
        verdict: what was found.
        reasons: the record's, then those of the actions; their commit is called `mine`.
    """
    record, codes = _record(reasons), [reason.get("Code") for reason in reasons]
    match verdict.outcome:
        case CommitOutcome.COMMITTED:
            claim(record.get(Record.COMMIT) == {"S": "mine"}, "committed is what the record shows")
        case CommitOutcome.DUPLICATE:
            claim(_is_duplicate(record), "a duplicate is what the record shows")
        case CommitOutcome.PENDING:
            pending = record.get(Record.STATE) == {"S": State.PENDING}
            claim(pending and _is_mine(record), "pending is what the record shows")
        case CommitOutcome.REFUSED:
            claim(claims.CONDITION in codes[1:], "a refusal is a condition that failed")
        case CommitOutcome.STALE:
            claim(claims.CONDITION in codes[1:], "a stale read is a condition that failed")
        case CommitOutcome.UNAFFECTED:
            claim(set(codes) == _HEALTHY, "who has a reason is not innocent")
        case CommitOutcome.FAILED:
            _check_blame(verdict, record, codes)
        case _:
            claim(set(codes) != _HEALTHY, "who has no reason met nobody")


def _check_blame(verdict: CommitResult, record: dict[str, Any], codes: list[Any]) -> None:
    claim(set(codes) != _HEALTHY, "an innocent neighbour is not blamed")
    if isinstance(verdict.cause, KeyConflict):
        claim(
            Record.FINGERPRINT in record and not _is_mine(record), "a conflict is another content"
        )
    elif isinstance(verdict.cause, InvalidWrite):
        claim(bool({*codes} & {*claims.INVALID}), "a write is invalid where DynamoDB says so")
    else:
        claim(not isinstance(verdict.cause, PermanentError), "nothing else is given up")
    claim(verdict.cause is not None, "a failure has its cause")
    if isinstance(verdict.cause, CommitRefused) and codes[0] == claims.CONDITION:
        claim(not record, "a record in the way is read")


def _record(reasons: list[Any]) -> dict[str, Any]:
    """Return the record in the way, which only the first reason can show."""
    first = reasons[0] if reasons else {}
    found = first.get("Item") if first.get("Code") == claims.CONDITION else None
    return found or {}


def _is_mine(record: dict[str, Any]) -> bool:
    return record.get(Record.FINGERPRINT) == {"S": items.MINE}


def _is_duplicate(record: dict[str, Any]) -> bool:
    return _is_mine(record) and record.get(Record.STATE) != {"S": State.PENDING}


def draw(rng: Random) -> dict[str, Any]:
    """Return the kinds of a transaction's actions, and a reason for each and its record."""
    kinds = claims.kinds(rng)
    reasons = [claims.reason(rng, of_record=position == 0) for position in range(1 + len(kinds))]
    return {"kinds": kinds, "reasons": reasons}


TARGET = Target("cancellation", share=6, draw=draw, check=check)
