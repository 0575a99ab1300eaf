"""A dead letter's metadata as JSON. Omits body, key and error text, which may contain its data."""

from typing import Any

from once.events.cloud_event import CloudEvent
from once.events.dedup_key import key_hash
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_context import event_of


def letter_json(letter: Letter) -> dict[str, Any]:
    """Return a letter's metadata as JSON values; times in ISO 8601."""
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
