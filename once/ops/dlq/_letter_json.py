"""Dead letters and verdicts as JSON values; times in ISO 8601."""

from datetime import datetime
from typing import Any

from once.events.cloud_event import CloudEvent
from once.events.dedup_key import key_hash
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_context import event_of
from once.ops.dead_letters.redrive_safety import AssessedLetter
from once.ops.dedup_records.record_text import record_lines


def letter_json(letter: Letter) -> dict[str, Any]:
    """Return a letter's metadata. Omits body, key and error text, which may contain its data."""
    event = event_of(letter)
    return {
        "consumer": letter.queue.owner,
        "message_id": letter.message_id,
        "reason": letter.reason,
        "error": letter.error and letter.error.partition(":")[0],
        "event_type": event.type if isinstance(event, CloudEvent) else None,
        "key_hash": letter.key and key_hash(letter.key),
        "dead_lettered": letter.sent_at.isoformat(),
        "first_seen": letter.first_seen.isoformat(),
        "receive_count": letter.receive_count,
        "lineage": list(map(str, letter.lineage)),
        **({"not_readable": [*letter.unreadable]} if letter.unreadable else {}),
    }


def verdict_json(assessed: AssessedLetter) -> dict[str, Any]:
    """Return the verdict on a letter."""
    letter, verdict = assessed.context.letter, assessed.verdict
    return {
        "consumer": letter.queue.owner,
        "message_id": letter.message_id,
        "outcome": verdict.outcome.name.lower(),
        "safe": verdict.safe,
        "why": verdict.why,
    }


def whole_letter_json(assessed: AssessedLetter, now: datetime) -> dict[str, Any]:
    """Return all that is known of a letter, body included."""
    context = assessed.context
    letter, event = context.letter, context.event
    return {
        **letter_json(letter),
        "error": letter.error,
        "group": letter.group,
        "place": letter.place if letter.queue.is_fifo else None,
        "event_id": event.id if isinstance(event, CloudEvent) else None,
        "source": event.source if isinstance(event, CloudEvent) else None,
        "attributes": letter.original.attributes,
        "left_out": letter.left_out,
        "dedup_key": context.pk,
        "dedup_record": context.record and record_lines(context.record, now),
        "if_sent_back": verdict_json(assessed),
        "body": letter.original.body,
    }
