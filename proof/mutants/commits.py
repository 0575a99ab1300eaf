"""Broken commits."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from once.commit.committer import CommitRequest, Committer
from once.commit.dedup_record import _NEW_OR_EXPIRED, StoredRecord
from once.commit.result import COMMITTED, DUPLICATE, CommitResult, classify_record, failed
from once.errors import RequestRefused
from once.events.outgoing import events_in
from once.names import Record
from once.outbox.relay import Publisher
from once.transaction import Transaction
from proof.service import EVENTS
from proof.world.clients import clients

_LEASE_SECONDS = 60
_commit = Committer.commit
_classify_each = Committer._classify_each


def _in_two(
    committer: Committer, requests: Sequence[CommitRequest], *parts: slice
) -> list[CommitResult]:
    """Commit two parts of the requests in separate transactions."""
    for part in parts:
        entries: Any = [entry for request in requests for entry in request.entries[part]]
        try:
            if entries:
                committer._client.transact_write_items(TransactItems=entries)
        except ClientError as error:
            error.response["CancellationReasons"] = _aligned_reasons(error, requests, part)
            return committer._read_refusal(requests, error)
        except BotoCoreError:
            return committer._unanswered(requests)
    return [COMMITTED] * len(requests)


def _aligned_reasons(error: ClientError, requests: Sequence[CommitRequest], part: slice) -> Any:
    """Return the reasons at the positions that they would have in one transaction."""
    reasons = iter(error.response.get("CancellationReasons", []))
    none = {"Code": "None"}
    return [
        next(reasons, none) if number in range(len(request.entries))[part] else none
        for request in requests
        for number, _ in enumerate(request.entries)
    ]


def claim_then_effect(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
    """Write the record, and then the handler's items."""
    return _in_two(self, requests, slice(0, 1), slice(1, None))


def effect_then_mark(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
    """Write the handler's items, and then the record."""
    return _in_two(self, requests, slice(1, None), slice(0, 1))


def _classify_without_fingerprint(transaction: Transaction, stored: StoredRecord) -> CommitResult:
    return classify_record(
        transaction, replace(stored, fingerprint=transaction.identity.fingerprint)
    )


@contextmanager
def no_fingerprint() -> Iterator[None]:
    """Treat every event with a known key as a duplicate."""
    with (
        patch("once.commit.result.classify_record", _classify_without_fingerprint),
        patch("once.commit.committer.classify_record", _classify_without_fingerprint),
    ):
        yield


def one_reason_for_all(
    self: Committer, requests: Sequence[CommitRequest], reasons: Sequence[Any]
) -> list[CommitResult]:
    """Report a group with one duplicate as duplicates."""
    results = _classify_each(self, requests, reasons)
    return [DUPLICATE] * len(requests) if DUPLICATE in results else results


def under_a_lease(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
    """Write a lease, then the handler's items, then the record, in separate transactions."""
    return [_leased(self, request) for request in requests]


def _leased(self: Committer, request: CommitRequest) -> CommitResult:
    put = msgspec.json.decode(request.entries[0])["Put"]
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
        for entries in ([{"Put": taken}], request.entries[1:], [{"Put": done}]):
            self._client.transact_write_items(TransactItems=entries)  # type: ignore[arg-type]
    except ClientError as error:
        reasons: list[Any] = [*error.response.get("CancellationReasons", []), {}]
        stored = reasons[0].get("Item", lease)
        if lease.keys() <= stored.keys():
            return failed(RequestRefused("another process has the lease"))
        return classify_record(request.transaction, StoredRecord.read(stored))
    except BotoCoreError:
        return failed(RequestRefused("no answer"))
    return COMMITTED


def published_inline(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
    """Publish after the commit, without an outbox for the relay."""
    entries = [msgspec.json.decode(request.entries[0]) for request in requests]
    events = [events_in(entry["Put"]["Item"]) for entry in entries]
    for entry in entries:
        entry["Put"]["Item"].pop(Record.OUTBOX, None)
    bare = [
        msgspec.structs.replace(
            request, entries=[msgspec.Raw(msgspec.json.encode(entry)), *request.entries[1:]]
        )
        for request, entry in zip(requests, entries, strict=True)
    ]
    results = _commit(self, bare)
    for result, own in zip(results, events, strict=True):
        if result == COMMITTED:
            Publisher(clients().sns, EVENTS).publish(own)
    return results
