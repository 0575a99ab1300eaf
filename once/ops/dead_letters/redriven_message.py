"""Redriven message: a dead letter's original message with its history as attributes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from once.failures.quarantine import Place, allowed, fits, key_text, size_of, text
from once.ops.dead_letters.decompression import to_send_form
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.queue_history import QueueStay, lineage_text
from once.schema import DeadLetter, Limits


@dataclass(frozen=True, slots=True)
class RedrivenMessage:
    """Arguments of SendMessage other than the queue.

    Attributes:
        body: the message body.
        attributes: the message attributes.
        grouping: the message group, and on a FIFO queue the deduplication id; empty without one.
    """

    body: str
    attributes: Mapping[str, Any]
    grouping: Mapping[str, str]

    def entry(self) -> dict[str, Any]:
        """Return the message as an entry of SendMessageBatch, without its id."""
        return {"MessageBody": self.body, "MessageAttributes": self.attributes, **self.grouping}

    @property
    def size(self) -> int:
        """Size in bytes."""
        return size_of(self.body, self.attributes)


def redriven_message(letter: Letter, now: datetime, *, edited: bool = False) -> RedrivenMessage:
    """Return the message that goes back into the letter's queue.

    The body is the producer's, uncompressed, since consumers never decompress. The producer's
    attributes stay in the single attribute of the quarantine, so that ten are never exceeded. If
    the message would be too large, the history is left out. The reason is part of the lineage only:
    as an attribute it would describe the next dead-lettering.

    Args:
        letter: the dead letter.
        now: the time, noted in the lineage.
        edited: whether the body was edited.
    """
    facts = {
        DeadLetter.LINEAGE: _lineage(letter, now, edited=edited),
        DeadLetter.FIRST_SEEN: letter.first_seen.isoformat(timespec="milliseconds"),
    }
    if letter.key and not edited:  # an edited body may have another key
        facts[DeadLetter.KEY] = key_text(letter.key)
    if letter.group is not None and letter.queue.is_fifo:
        facts[DeadLetter.GROUP] = str(Place(letter.group, letter.place))
    history = {name: text(allowed(value)) for name, value in facts.items()}
    body, kept = letter.original.body, letter.original.plain()
    sent = to_send_form(letter.original.attributes)
    forms = [history | kept, kept, *([sent] if len(sent) <= Limits.MESSAGE_ATTRIBUTES else [])]
    attributes: dict[str, Any] = next((form for form in forms if fits(body, form)), {})
    return RedrivenMessage(body, attributes, _grouping(letter, body))


def _lineage(letter: Letter, now: datetime, *, edited: bool) -> str:
    *earlier, last = letter.lineage or (QueueStay(letter.message_id),)
    return lineage_text([*earlier, last.ended(letter.reason, now, edited=edited)])


def _grouping(letter: Letter, body: str) -> dict[str, str]:
    """Return the message group; a FIFO queue also takes an id, and drops a letter sent twice."""
    if letter.group is None:
        return {}
    if not letter.queue.is_fifo:
        return {"MessageGroupId": letter.group}
    identity = sha256(f"{letter.message_id} {body}".encode()).hexdigest()
    return {"MessageGroupId": letter.group, "MessageDeduplicationId": identity}
