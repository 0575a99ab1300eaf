"""Broken commits: in several transactions, or with a publication outside of them."""

from collections.abc import Sequence

import msgspec

from once.commit.committer import CommitRequest, Committer
from once.commit.result import COMMITTED, CommitResult
from once.events.outgoing import events_in
from once.names import Record
from once.outbox.publisher import Publisher
from proof.mutants.edits import Change, edit
from proof.service import EVENTS
from proof.world.clients import clients

CLAIM, EFFECT = "slice(0, 1)", "slice(1, None)"
"""The parts of a request's entries: the record, and the handler's items."""
_commit = Committer.commit


def in_two(first: str, second: str, of: str = "") -> Change:
    """Commit two parts of each request one after the other, if its key begins with `of`."""
    return edit(
        Committer.commit,
        "self._send(entries)",
        f"""every = [[e for r in requests for e in r.entries[s]] for s in ({first}, {second})]
            is_broken = requests[0].transaction.identity.pk.startswith({of!r})
            [self._send(part) for part in (every if is_broken else [entries]) if part]""",
    )


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
