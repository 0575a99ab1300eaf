"""Broken commits, made of the real committer."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from once.commit.cancellation import judge_record
from once.commit.committer import Committer, _judge_each
from once.commit.dedup_record import _NEW_OR_EXPIRED, StoredRecord
from once.commit.request import Claim
from once.commit.result import COMMITTED, DUPLICATE, Verdict, failed
from once.errors import CommitRefused
from once.events.outgoing import events_in
from once.handlers.transaction import Transaction
from once.outbox.sns_publisher import Publisher
from once.schema import Record
from proof.shop.clients import clients
from proof.shop.service import EVENTS

_LEASE_SECONDS = 60
_commit = Committer.commit


def _in_two(committer: Committer, claims: Sequence[Claim], *parts: slice) -> list[Verdict]:
    """Commit parts of what belongs together one after the other."""
    for part in parts:
        entries: Any = [entry for claim in claims for entry in claim.entries[part]]
        try:
            if entries:
                committer._client.transact_write_items(TransactItems=entries)
        except ClientError as error:
            error.response["CancellationReasons"] = _in_their_places(error, claims, part)
            return committer._read_refusal(claims, error)
        except BotoCoreError:
            return committer._unanswered(claims)
    return [COMMITTED] * len(claims)


def _in_their_places(error: ClientError, claims: Sequence[Claim], part: slice) -> list[Any]:
    """Return the reasons where they would stand if all had been one request."""
    reasons = iter(error.response.get("CancellationReasons", []))
    untouched = {"Code": "None"}
    return [
        next(reasons, untouched) if number in range(len(claim.entries))[part] else untouched
        for claim in claims
        for number, _ in enumerate(claim.entries)
    ]


def claim_then_effect(self: Committer, claims: Sequence[Claim]) -> list[Verdict]:
    """Write the record, and then the handler's items."""
    return _in_two(self, claims, slice(0, 1), slice(1, None))


def effect_then_mark(self: Committer, claims: Sequence[Claim]) -> list[Verdict]:
    """Write the handler's items, and then the record."""
    return _in_two(self, claims, slice(1, None), slice(0, 1))


def _whatever_the_content(transaction: Transaction, stored: StoredRecord) -> Verdict:
    return judge_record(transaction, replace(stored, fingerprint=transaction.identity.fingerprint))


@contextmanager
def no_fingerprint() -> Iterator[None]:
    """Take everything under a known key for a duplicate."""
    with (
        patch("once.commit.cancellation.judge_record", _whatever_the_content),
        patch("once.commit.committer.judge_record", _whatever_the_content),
    ):
        yield


def one_reason_for_all(claims: Sequence[Claim], reasons: Sequence[Any]) -> list[Verdict]:
    """Take the duplicate of one claim for the verdict on all of them."""
    verdicts = _judge_each(claims, reasons)
    return [DUPLICATE] * len(claims) if DUPLICATE in verdicts else verdicts


def under_a_lease(self: Committer, claims: Sequence[Claim]) -> list[Verdict]:
    """Lease the record, write the handler's items, and then mark the record as done."""
    return [_leased(self, claim) for claim in claims]


def _leased(self: Committer, claim: Claim) -> Verdict:
    put = msgspec.json.decode(claim.entries[0])["Put"]
    done = {"TableName": put["TableName"], "Item": put["Item"]}
    lease = {"lease_until": {"N": str(int(self._clock()) + _LEASE_SECONDS)}}
    taken = {
        **put,
        "Item": put["Item"] | lease,
        "ConditionExpression": f"{_NEW_OR_EXPIRED} OR lease_until < :now",
        "ExpressionAttributeValues": {
            **put["ExpressionAttributeValues"],
            ":now": {"N": str(int(self._clock()))},
        },
    }
    try:
        for entries in ([{"Put": taken}], claim.entries[1:], [{"Put": done}]):
            self._client.transact_write_items(TransactItems=entries)  # type: ignore[arg-type]
    except ClientError as error:
        reasons: list[Any] = [*error.response.get("CancellationReasons", []), {}]
        stored = reasons[0].get("Item", lease)
        if lease.keys() <= stored.keys():
            return failed(CommitRefused("somebody else has the lease"))
        return judge_record(claim.transaction, StoredRecord.read(stored))
    except BotoCoreError:
        return failed(CommitRefused("no answer"))
    return COMMITTED


def published_inline(self: Committer, claims: Sequence[Claim]) -> list[Verdict]:
    """Publish after the commit, and leave the relay nothing."""
    entries = [msgspec.json.decode(claim.entries[0]) for claim in claims]
    events = [events_in(entry["Put"]["Item"]) for entry in entries]
    for entry in entries:
        entry["Put"]["Item"].pop(Record.OUTBOX, None)
    bare = [
        replace(claim, entries=[msgspec.Raw(msgspec.json.encode(entry)), *claim.entries[1:]])
        for claim, entry in zip(claims, entries, strict=True)
    ]
    verdicts = _commit(self, bare)
    for verdict, own in zip(verdicts, events, strict=True):
        if verdict == COMMITTED:
            Publisher(clients().sns, EVENTS).publish(own)
    return verdicts
