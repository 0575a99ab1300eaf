"""`once.commit.committer.Committer`: a group's verdicts, out of whatever answer arrives."""

from random import Random
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from once.commit.committer import Committer
from once.commit.request import CommitRequest
from once.commit.result import CommitOutcome, CommitResult
from once.schema import CLOCK_MARGIN_SECONDS, Record
from proof.fuzz import claims, items, nasty
from proof.fuzz.parsers.cancellation import check_verdict
from proof.fuzz.target import Target, claim

CANCELLED = "TransactionCanceledException"
NOW = 1_700_000_000.0
_CODES = (
    *("TransactionInProgressException", "ThrottlingException", "ValidationException"),
    *(
        "ResourceNotFoundException",
        "AccessDeniedException",
        "ExpiredTokenException",
        "",
        "Whatever",
    ),
)
_FOUND = {CommitOutcome.COMMITTED, CommitOutcome.DUPLICATE, CommitOutcome.PENDING}


def check(case: dict[str, Any]) -> None:
    """Commit a group that gets this answer, and hold each verdict against it."""
    group = [_claim(number, kinds) for number, kinds in enumerate(case["group"])]
    client: Any = SimpleNamespace(
        transact_write_items=lambda **_: _raise(case["answer"]),
        batch_get_item=lambda **_: {"Responses": {"dedup": case["found"]}},
    )
    verdicts = Committer(client, claims.SETTINGS, lambda: NOW).commit(group)
    claim(len(verdicts) == len(group), "every claim has its verdict")
    if case["answer"] is not None and case["answer"]["code"] == CANCELLED:
        _check_slices(group, verdicts, case["answer"]["reasons"])
    else:
        _check_looked_up(group, verdicts, case["found"])


def _check_slices(
    group: list[CommitRequest], verdicts: list[CommitResult], reasons: list[Any]
) -> None:
    """Each verdict rests on its own part of the reasons; what has no such part proves nothing."""
    if all(verdict.outcome is CommitOutcome.BUSY for verdict in verdicts):
        return
    start = 0
    for one, verdict in zip(group, verdicts, strict=True):
        own = reasons[start : start + len(one.entries)]
        start += len(one.entries)
        whole = len(own) == len(one.entries)
        if whole and all(isinstance(reason, dict) and "Code" in reason for reason in own):
            check_verdict(verdict, own)
        elif verdict.outcome in _FOUND:
            # The record's own reason is there; a later one is not, and says nothing of it.
            check_verdict(verdict, own[:1])
        else:
            claim(
                verdict.outcome is not CommitOutcome.UNAFFECTED,
                "who has no reasons is not known innocent",
            )


def _check_looked_up(
    group: list[CommitRequest], verdicts: list[CommitResult], found: list[Any]
) -> None:
    records = {item[Record.PK]["S"]: item for item in found}
    for one, verdict in zip(group, verdicts, strict=True):
        claim(
            verdict.outcome is not CommitOutcome.UNAFFECTED,
            "nobody is named, so nobody is innocent",
        )
        if verdict.outcome in _FOUND:
            item = records.get(one.transaction.identity.pk)
            claim(item is not None, "what was committed has a record")
            claim(not _has_expired(item or {}), "an expired record is none")
            check_verdict(verdict, [{"Code": claims.CONDITION, "Item": item}])


def _has_expired(item: dict[str, Any]) -> bool:
    expires = item.get(Record.EXPIRES_AT)
    return expires is not None and int(expires["N"]) < NOW - CLOCK_MARGIN_SECONDS


def _claim(number: int, kinds: list[str]) -> CommitRequest:
    tx = claims.transaction(number, kinds)
    tx.commit_id = "mine"
    return CommitRequest.of(tx, claims.SETTINGS, NOW)


def _raise(answer: dict[str, Any] | None) -> None:
    if answer is None:
        raise ReadTimeoutError(endpoint_url="dynamodb")
    response: Any = {
        "Error": {"Code": answer["code"], "Message": "m"},
        "ResponseMetadata": {"HTTPStatusCode": answer["status"]},
        "CancellationReasons": answer["reasons"],
    }
    raise ClientError(response, "TransactWriteItems")


def draw(rng: Random) -> dict[str, Any]:
    """Return a group, the answer to its request, and the records that a look finds."""
    group = [claims.kinds(rng) for _ in range(rng.randint(1, 4))]
    found = [
        items.stored(rng, commit="mine") | {Record.PK: {"S": f"orders#event#/shop#e-{number}"}}
        for number in range(len(group))
        if rng.random() < 0.5
    ]
    return {"group": group, "answer": _answer(rng, group), "found": found}


def _answer(rng: Random, group: list[list[str]]) -> dict[str, Any] | None:
    pick = rng.random()
    if pick < 0.1:
        return None
    if pick < 0.3:
        return {"code": rng.choice(_CODES), "status": rng.choice((400, 500)), "reasons": []}
    reasons = [
        claims.reason(rng, of_record=position == 0)
        for kinds in group
        for position in range(1 + len(kinds))
    ]
    return {"code": CANCELLED, "status": 400, "reasons": _spoilt(rng, reasons)}


def _spoilt(rng: Random, reasons: list[Any]) -> list[Any]:
    """Too few, too many, or none of the form that is documented; in most cases as they are."""
    pick = rng.random()
    if pick < 0.15:
        return reasons[: rng.randint(0, len(reasons))]
    if pick < 0.25:
        return reasons + reasons[: rng.randint(1, len(reasons))]
    if pick < 0.35:
        reasons[rng.randrange(len(reasons))] = rng.choice((None, {}, "None", nasty.value(rng)))
    return reasons


TARGET = Target("commit", share=2, draw=draw, check=check)
