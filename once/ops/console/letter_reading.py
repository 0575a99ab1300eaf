"""Readings of dead letters: what the pages show, without receiving all letters for each of them.

A reading receives every letter, which hides it from other commands for a moment. Therefore pages
that are read again in the background keep the last reading, and only one reading or change of this
console is under way at a time.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Self, TypeVar, cast

from once.events.cloud_event import CloudEvent
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.assessment import AssessedLetter, Verdict, assess_letters
from once.ops.dead_letters.letter import dead_letter_queues
from once.ops.dead_letters.search import LetterSearch, open_search
from once.ops.dead_letters.selection import (
    DEFAULT_LIMIT,
    LetterFilter,
    error_pattern,
    event_id,
    letters_by_id,
)
from once.ops.dedup_records import DedupRecordReader
from once.ops.errors import OpsError

FRESH_SECONDS = 15
"""A page that is opened shows a reading of at most this age."""
_MOST_KEPT = 20

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A dead letter in a list, without its body.

    Attributes:
        consumer: the owner of its queue.
        message_id: its id in that queue.
        reason: reason code; None if no reason was recorded.
        error: the pattern of its error.
        sent_at: time of its dead-lettering.
        event_type: its event's type; None if it cannot be read.
        event_id: its event's id; None if it cannot be read.
        key: its dedup key, if it is known.
        verdict: the verdict on sending it back.
    """

    consumer: str
    message_id: str
    reason: str | None
    error: str
    sent_at: datetime
    event_type: str | None
    event_id: str | None
    key: str | None
    verdict: Verdict

    @classmethod
    def of(cls, assessed: AssessedLetter) -> Self:
        """Return the row of a letter."""
        context = assessed.context
        letter, event = context.letter, context.event
        return cls(
            consumer=letter.queue.owner,
            message_id=letter.message_id,
            reason=letter.reason,
            error=error_pattern(letter.error),
            sent_at=letter.sent_at,
            event_type=event.type if isinstance(event, CloudEvent) else None,
            event_id=event_id(event),
            key=context.pk,
            verdict=assessed.verdict,
        )

    def matches(self, letters: LetterFilter) -> bool:
        """Tell whether its letter matches a filter."""
        return letters.matches_failure(self.reason, self.error, self.sent_at) and (
            letters.matches_key(self.key, self.event_id)
        )


@dataclass(frozen=True, slots=True)
class LetterReading:
    """The dead letters at a time.

    Attributes:
        rows: the letters.
        search_text: how many letters were received of how many, and what was hidden.
        hidden: what other commands hid, and until when; None if nothing.
        complete: whether there are no more letters than one reading receives.
        read_at: when they were read.
    """

    rows: Sequence[LetterRow]
    search_text: str
    hidden: str | None
    complete: bool
    read_at: datetime = field(default_factory=lambda: datetime.now(UTC))


def read_letters(deployment: Deployment, consumer: str | None) -> LetterReading:
    """Read the dead letters of a deployment or of one consumer, each with its verdict.

    Raises:
        OpsError, botocore.exceptions.BotoCoreError, ClientError: a queue or a record cannot be
            read.
    """
    with _search(deployment, consumer) as search:
        records = _records(deployment)
        rows = [
            LetterRow.of(one)
            for page in search.walk.pages()
            for one in assess_letters(records, page)
        ]
    hidden = str(search.hidden) if search.hidden else None
    return LetterReading(rows, search.progress_text, hidden, search.walk.complete)


def read_letter(deployment: Deployment, consumer: str, message_id: str) -> AssessedLetter:
    """Read one dead letter with its verdict.

    Raises:
        OpsError: it is not there, or another command hides it.
        botocore.exceptions.BotoCoreError, ClientError: its queue or its record cannot be read.
    """
    with _search(deployment, consumer) as search:
        [letter] = letters_by_id(search, [message_id])
    [assessed] = assess_letters(_records(deployment), [letter])
    return assessed


@contextmanager
def _search(deployment: Deployment, consumer: str | None) -> Iterator[LetterSearch]:
    queues = dead_letter_queues(deployment, consumer)
    with open_search(client("sqs"), queues, DEFAULT_LIMIT) as search:
        yield search


def _records(deployment: Deployment) -> DedupRecordReader:
    return DedupRecordReader.of(client("dynamodb"), deployment)


class LetterReadings:
    """The last readings of a console."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._changing = False
        self._kept: dict[object, tuple[float, Any]] = {}

    def get(self, key: object, read: Callable[[], _T], *, keep: bool) -> _T:
        """Return a reading that is fresh, or kept; otherwise read.

        Args:
            key: what is read.
            read: reads it.
            keep: whether a reading of any age will do.

        Raises:
            OpsError: see `held`. Or what `read` raises.
        """
        if (kept := self._usable(key, keep=keep or self._changing)) is not None:
            return cast(_T, kept)
        with self.held():
            if (kept := self._usable(key, keep=keep)) is not None:
                return cast(_T, kept)
            answer = read()
            self._kept[key] = time.monotonic(), answer
            for old in [*self._kept][:-_MOST_KEPT]:
                del self._kept[old]
            return answer

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no other reading or change of this console receive letters meanwhile.

        Raises:
            OpsError: a change of this console holds the letters.
        """
        if self._changing:
            raise OpsError(
                "a change of this console is under way and holds the dead letters: its page shows "
                "how far it is; open this page again after its end"
            )
        with self._lock:
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Wait until no other does, and let none meanwhile; then every page reads again."""
        with self._lock:
            self._changing = True
            try:
                yield
            finally:
                self._changing = False
                self._kept.clear()

    def _usable(self, key: object, *, keep: bool) -> Any:
        at, found = self._kept.get(key, (0.0, None))
        return found if keep or time.monotonic() - at < FRESH_SECONDS else None
