"""Queue history: a message's stays in its queue, each with a message id and how it ended.

The attribute `once-lineage` holds one part for each stay, separated by commas. A consumer adds the
id; a redrive adds, after blanks, the reason, the time, and "edited" if the body was edited.
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
"""Replaces a reason if none was recorded: the function died, or never read the message."""

_EDITED = "edited"
_MESSAGE_ID = re.compile(r"[0-9A-Za-z-]{1,100}", re.ASCII)
_MOST = 100
"""Most stays that are kept."""


@dataclass(frozen=True, slots=True)
class QueueStay:
    """One stay in the queue.

    Attributes:
        message_id: the message's id during the stay.
        reason: reason code of its end; None if the message was not redriven by this tool.
        sent_back: time of the redrive, as text in ISO 8601.
        edited: whether it was redriven with an edited body.
    """

    message_id: str
    reason: str | None = None
    sent_back: str | None = None
    edited: bool = False

    @classmethod
    def read(cls, part: str) -> Self:
        """Read one part; further words are ignored.

        Raises:
            ValueError: the part is not a stay.
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
        """Return the stay with reason and time of the redrive."""
        moment = now.isoformat(timespec="seconds")
        return replace(self, reason=reason or DIED, sent_back=moment, edited=edited)


def read_lineage(text: str) -> tuple[QueueStay, ...] | None:
    """Return the newest stays of a lineage, oldest first; None if it is not readable."""
    parts = text.split(",")[-_MOST:]
    try:
        return tuple(QueueStay.read(part.strip()) for part in parts if part.strip())
    except ValueError:
        return None


def lineage_text(stays: Iterable[QueueStay]) -> str:
    """Return the stays in the form of the attribute `once-lineage`."""
    return ",".join(map(str, stays))
