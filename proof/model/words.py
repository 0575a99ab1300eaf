"""Calls and their answers as people read them, in a list of what happened."""

from collections.abc import Callable
from typing import Any

from proof.model.calls import (
    NONE,
    Answer,
    Call,
    Change,
    Charge,
    Checkpoint,
    Claim,
    Commit,
    DeleteLetter,
    Found,
    LookUp,
    Publish,
    Quarantine,
    Read,
    Reasons,
    Reply,
    SendBack,
    Write,
)


def named(call: Call) -> str:
    """Return what a call does; no two that can be under way together are named alike."""
    return _NAMES[type(call)](call)


def said(reply: Reply) -> str:
    """Return what a caller is told."""
    if isinstance(reply, tuple):
        return ", ".join(_one(reply) for reply in reply) or "nothing"
    return _one(reply)


def _one(reply: Reply) -> str:
    match reply:
        case Reasons(record, row):
            return _cancelled(record, row)
        case Found(record):
            return f"committed by {record.commit}" if record.intent is None else "pending"
        case bool():
            return "charged" if reply else "not charged"
        case None:
            return "no record"
        case _:
            return str(reply)


def _cancelled(record: Any, row: str) -> str:
    if isinstance(record, Found):
        return f"cancelled, the key is {_one(record)}"
    if (record, row) == (NONE, NONE):
        return "cancelled by a neighbour"
    return f"cancelled, {row if record == NONE else record}"


def _commit(call: Commit) -> str:
    return f"commit {' and '.join(_claimed(claim) for claim in call.claims)}"


def _claimed(claim: Claim) -> str:
    what = "the record of " if claim.bare else ""
    if claim.record.intent:
        what = "the intent of "
    elif claim.owned:
        what = "the outcome of "
    elif claim.refused:
        what = "the refusal of "
    return f"{what}{claim.key} as {claim.record.commit}"


def _changed(call: Change) -> str:
    before, after = call.before, call.after
    if before.owner != after.owner:
        return f"take {call.key} over from {before.owner} as {after.owner}"
    if before.provider_key != after.provider_key:
        return f"note the new provider key {after.provider_key} as {after.owner}"
    return f"hand {call.key} back from {after.owner} as {after.standing}"


def _answered(call: Answer) -> str:
    again = " and ".join(failure.message for failure in call.failures)
    return f"answer that {again} failed" if again else "answer that all is done"


_NAMES: dict[type, Callable[[Any], str]] = {
    Commit: _commit,
    Write: lambda call: f"write the row of {call.event.key}",
    Read: lambda call: f"read the record of {' and '.join(call.keys)}",
    Change: _changed,
    Charge: lambda call: f"call the provider with {call.provider_key}",
    LookUp: lambda call: f"look {call.event.key} up at the provider",
    Quarantine: lambda call: f"dead-letter {call.message} as {call.reason}",
    Answer: _answered,
    Publish: lambda call: f"publish {' and '.join(call.events)}",
    Checkpoint: lambda call: f"move on by {call.passed} in the stream",
    SendBack: lambda call: f"send {call.letter.id} back",
    DeleteLetter: lambda call: f"delete {call.letter.id}",
}
