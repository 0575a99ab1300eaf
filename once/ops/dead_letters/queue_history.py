"""Where a message has been: the message ids it had in its queue, and why it left each of them.

Written into the attribute `once-lineage`, one part for each stay, parted by commas. A consumer adds
the id; sending back adds, after blanks, the reason, the time, and "edited" where the body was.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from once.ops.terminal.timestamps import parse_timestamp

REASON = re.compile(r"[a-z-]{1,40}", re.ASCII)
"""Form of a reason code."""

DIED = "died"
"""In place of a reason: the function died at the message, or never got to it."""

_EDITED = "edited"
_MESSAGE_ID = re.compile(r"[0-9A-Za-z-]{1,100}", re.ASCII)
_MOST = 100
"""Most stays that are kept, so that the history of a message stays small."""


@dataclass(frozen=True, slots=True)
class QueueStay:
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
        """Read one part; whatever else it holds is left out.

        Raises:
            ValueError: it is of no form in which a stay is written.
        """
        message_id, *noted = part.split(" ")
        reason, sent_back, edited = (*noted, None, None, None)[:3]
        if not (
            _MESSAGE_ID.fullmatch(message_id)
            and (reason is None or REASON.fullmatch(reason))
            and (sent_back is None or parse_timestamp(sent_back))
        ):
            raise ValueError("no stay in a queue")
        return cls(message_id, reason, sent_back, edited == _EDITED)

    def __str__(self) -> str:
        noted = (self.message_id, self.reason, self.sent_back, _EDITED if self.edited else None)
        return " ".join(filter(None, noted))

    def ended(self, reason: str | None, now: datetime, *, edited: bool) -> Self:
        """Return the stay with what is noted when its message is sent back."""
        moment = now.isoformat(timespec="seconds")
        return replace(self, reason=reason or DIED, sent_back=moment, edited=edited)


def read_lineage(text: str) -> tuple[QueueStay, ...] | None:
    """Return the newest stays in a lineage, oldest first; None where it is not readable."""
    parts = text.split(",")[-_MOST:]
    try:
        return tuple(QueueStay.read(part.strip()) for part in parts if part.strip())
    except ValueError:
        return None


def lineage_text(stays: Iterable[QueueStay]) -> str:
    """Return the stays as `once-lineage` holds them."""
    return ",".join(map(str, stays))
