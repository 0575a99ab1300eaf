"""Where a message has been: the message ids it had in its queue, and why it left each of them.

Written into the attribute `once-lineage`, one part for each stay, parted by commas. A consumer adds
the id; sending back adds, after blanks, the reason, the time, and "edited" where the body was.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

DIED = "died"
"""In place of a reason: the function died at the message, or never got to it."""

_EDITED = "edited"


@dataclass(frozen=True, slots=True)
class Stay:
    """One stay in the queue.

    Attributes:
        message_id: the id that SQS gave the message for it.
        reason: why it ended as a dead letter; None for one that was not sent back by this tool.
        sent_back: when it was sent back, as text in ISO 8601.
        edited: whether it was sent back with another body.
    """

    message_id: str
    reason: str | None = None
    sent_back: str | None = None
    edited: bool = False

    @classmethod
    def read(cls, part: str) -> Self:
        """Read one part; whatever else it holds is left out."""
        message_id, *noted = part.split(" ")
        reason, sent_back, edited = (*noted, None, None, None)[:3]
        return cls(message_id, reason, sent_back, edited == _EDITED)

    def __str__(self) -> str:
        noted = (self.message_id, self.reason, self.sent_back, _EDITED if self.edited else None)
        return " ".join(filter(None, noted))

    def ended(self, reason: str | None, now: datetime, *, edited: bool) -> Self:
        """Return the stay with what is noted when its message is sent back."""
        moment = now.isoformat(timespec="seconds")
        return replace(self, reason=reason or DIED, sent_back=moment, edited=edited)


def read_lineage(text: str) -> tuple[Stay, ...]:
    """Return the stays in a lineage, oldest first."""
    return tuple(Stay.read(part.strip()) for part in text.split(",") if part.strip())


def lineage_text(stays: Iterable[Stay]) -> str:
    """Return the stays as `once-lineage` holds them."""
    return ",".join(map(str, stays))
