"""Dead-letter attributes, which a consumer or a redrive wrote, read into types.

A producer can set all of them too. Therefore each is parsed strictly, and an invalid value counts
as not readable.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, TypeVar

from once.failures.quarantine import Place, key_of
from once.ops.dead_letters.queue_history import REASON, QueueStay, read_lineage
from once.ops.terminal.timestamps import parse_timestamp
from once.schema import DeadLetter

_KEY = re.compile(r"[^#]+#.*", re.DOTALL)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LetterAttributes:
    """Values of the attributes; None or an empty lineage if missing or not readable.

    Attributes:
        reason: code of `once.schema.Reason`.
        error: the failure as text.
        key: the dedup key.
        first_seen: when a consumer first received it, in UTC.
        receive_count: number of receives during its last stay in the consumer's queue.
        lineage: its earlier stays in the queue, oldest first.
        place: the message group and the place there, for a consumer with a FIFO queue.
        left_out: the part of the message that did not fit into the letter.
        unreadable: names of attributes that exist and cannot be read.
    """

    reason: str | None
    error: str | None
    key: str | None
    first_seen: datetime | None
    receive_count: int | None
    lineage: tuple[QueueStay, ...]
    place: Place | None
    left_out: str | None
    unreadable: tuple[str, ...]

    @classmethod
    def read(cls, attributes: Mapping[str, Any]) -> Self:
        """Read the message attributes of ReceiveMessage."""
        unreadable: list[str] = []

        def read(name: str, form: Callable[[str], _T | None]) -> _T | None:
            if name not in attributes:
                return None
            text = attributes[name].get("StringValue")
            if text is None or (found := form(text)) is None:
                unreadable.append(name)
                return None
            return found

        return cls(
            reason=read(DeadLetter.REASON, _reason),
            error=read(DeadLetter.ERROR, str),
            key=read(DeadLetter.KEY, _key),
            first_seen=read(DeadLetter.FIRST_SEEN, parse_timestamp),
            receive_count=read(DeadLetter.RECEIVE_COUNT, _count),
            lineage=read(DeadLetter.LINEAGE, read_lineage) or (),
            place=read(DeadLetter.GROUP, Place.read),
            left_out=read(DeadLetter.LEFT_OUT, str),
            unreadable=tuple(unreadable),
        )


def _reason(text: str) -> str | None:
    return text if REASON.fullmatch(text) else None


def _key(text: str) -> str | None:
    return key_of(text) if _KEY.fullmatch(text) else None


def _count(text: str) -> int | None:
    return int(text) if _COUNT.fullmatch(text) else None
