"""Broken commits: in several transactions, or with a publication outside of them."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from once.commit.committer import CommitRequest, Committer
from once.commit.result import COMMITTED, CommitResult
from once.events.outgoing import events_in
from once.names import Record
from once.outbox.relay import Publisher
from proof.mutants.edits import Change, value
from proof.service import EVENTS
from proof.world.clients import clients

_commit = Committer.commit


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


def at_the_ingress(broken: Callable[..., list[CommitResult]]) -> Change:
    """Commit in a broken way what the ingress writes, and no consumer."""

    def commit(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
        is_webhook = requests[0].transaction.identity.pk.startswith("webhooks#")
        return (broken if is_webhook else _commit)(self, requests)

    return value("once.commit.committer.Committer.commit", commit)


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
