"""A dead letter as it is sent back: what the consumer will read, and where the message has been."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from once.failures.quarantine import allowed, fits, size_of, text
from once.ops.dead_letters.decompression import to_send_form
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.queue_history import QueueStay, lineage_text
from once.schema import DeadLetter, Limits


@dataclass(frozen=True, slots=True)
class RedrivenMessage:
    """What is sent: the arguments that SendMessage takes beside the queue."""

    body: str
    attributes: Mapping[str, Any]
    order: Mapping[str, str]

    def entry(self) -> dict[str, Any]:
        """Return it in SQS's form."""
        return {"MessageBody": self.body, "MessageAttributes": self.attributes, **self.order}

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return size_of(self.body, self.attributes)


def sent_back(letter: Letter, now: datetime, *, edited: bool = False) -> RedrivenMessage:
    """Return the message that goes back into the letter's queue.

    The body is the producer's, and never compressed: no consumer opens that. The producer's
    attributes stay where the quarantine has put them, so that ten are never passed. Beside the
    largest messages the history is left out, and the attributes go as they were sent.
    The reason is noted in the lineage alone: on the message it would speak of its next death.

    Args:
        letter: the dead letter.
        now: the time, noted in the lineage.
        edited: whether the body is another than the producer's.
    """
    facts = {
        DeadLetter.LINEAGE: _lineage(letter, now, edited=edited),
        DeadLetter.FIRST_SEEN: letter.first_seen.isoformat(timespec="milliseconds"),
    }
    if letter.key_hash:
        facts[DeadLetter.KEY_HASH] = letter.key_hash
    history = {name: text(allowed(value)) for name, value in facts.items()}
    body, kept = letter.original.body, letter.original.plain()
    sent = to_send_form(letter.original.attributes)
    forms = [history | kept, kept, *([sent] if len(sent) <= Limits.MESSAGE_ATTRIBUTES else [])]
    attributes: dict[str, Any] = next((form for form in forms if fits(body, form)), {})
    return RedrivenMessage(body, attributes, _order(letter, body))


def _lineage(letter: Letter, now: datetime, *, edited: bool) -> str:
    *earlier, last = letter.lineage or (QueueStay(letter.message_id),)
    return lineage_text([*earlier, last.ended(letter.reason, now, edited=edited)])


def _order(letter: Letter, body: str) -> dict[str, str]:
    """What a FIFO queue asks for. Sent back twice, the same letter is taken once by SQS already."""
    if letter.group is None:
        return {}
    identity = sha256(f"{letter.message_id} {body}".encode()).hexdigest()
    return {"MessageGroupId": letter.group, "MessageDeduplicationId": identity}
