"""Remedies: the action to take before a dead letter is redriven, by its reason."""

from once.schema import Reason

_NO_REASON_REMEDY = "the function died on every receive, or never read it: see its log first"
"""Remedy if no reason was recorded."""

REFUSED_BEFORE_DEDUP = frozenset(
    {
        Reason.UNPARSEABLE,
        Reason.INVALID_EVENT,
        Reason.UNKNOWN_TYPE,
        Reason.UNTRUSTED_SOURCE,
        Reason.NO_KEY,
        Reason.INVALID_CLAIM,
        Reason.TOO_LARGE,
    }
)
"""Reasons of rejections before the dedup record is read; a duplicate is rejected too."""

MENDED_BY_EDIT = frozenset(
    {
        Reason.UNPARSEABLE,
        Reason.INVALID_EVENT,
        Reason.UNKNOWN_TYPE,
        Reason.INVALID_DATA,
        Reason.NO_KEY,
        Reason.TOO_LARGE,
    }
)
"""Reasons that the former body caused: they say nothing of an edited one."""

_EDIT = "`once dlq redrive --edit` changes the body, or the producer sends a new event"
_REMEDIES = {
    Reason.UNPARSEABLE: _EDIT,
    Reason.INVALID_EVENT: _EDIT,
    Reason.NO_KEY: _EDIT,
    Reason.INVALID_CLAIM: "find out who sent it; a producer stores data in the declared bucket",
    Reason.CLAIM_MISSING: "the producer stores the data again, or sends a new event",
    Reason.UNKNOWN_TYPE: "deploy a handler for the type, or take it out of the consumer",
    Reason.UNTRUSTED_SOURCE: (
        "find out who sent it; correct and deploy a consumer that declares the type wrongly, and "
        "purge a forged event"
    ),
    Reason.INVALID_DATA: f"deploy a model that reads the data; or {_EDIT}",
    Reason.TOO_LARGE: "raise the limit, or have the producer send where the data can be read",
    Reason.KEY_CONFLICT: "the producer sends a new event, with an id of its own; purge this one",
    Reason.INVALID_WRITE: "deploy a handler whose write DynamoDB takes",
    Reason.UNHANDLED_REFUSAL: "deploy a handler with `@consumer.rejects` for the refusal",
    Reason.PERMANENT: "see to what the handler's error names",
    Reason.WRONG_OUTCOME: "correct the effect's function or its annotation, and deploy",
    Reason.EFFECT_UNKNOWN: "see to what the error names",
    Reason.UNPUBLISHABLE: "declare its type, see to the topic, then `once outbox republish`",
    Reason.NO_TYPE: "the producer must set the attribute; `once dlq redrive` sets it",
    Reason.UNSUBSCRIBED_TYPE: "add the type to `external=` of a consumer and deploy",
    Reason.TOO_MANY_ATTRIBUTES: "the producer must send fewer; `once dlq redrive` sends the type",
    Reason.UNFINISHED: "see the function's log: its end in each delivery, or throttles",
    Reason.FORMER_UNFINISHED: "mark the former record as done, or delete it: see docs/migrating.md",
    Reason.RETRIES_EXHAUSTED: "see to what the error names, if it has not passed",
}


def remedy(reason: str | None) -> str | None:
    """Return the action to take before a letter is redriven; None if none is needed.

    Args:
        reason: the letter's reason; None if none was recorded.
    """
    if reason is None:
        return _NO_REASON_REMEDY
    return _REMEDIES.get(Reason(reason)) if reason in set(Reason) else None
