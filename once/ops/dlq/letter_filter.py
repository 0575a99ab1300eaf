"""Letter filter: conditions that select dead letters."""

from dataclasses import dataclass
from datetime import datetime

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.ops.dead_letters.error_pattern import error_pattern
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_context import event_and_key
from once.ops.dead_letters.queue_history import DIED


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Selects dead letters that match every condition that is not None.

    Attributes:
        reason: reason code, or `died` for letters without one.
        error: the pattern of the error: see `once.ops.dead_letters.error_pattern`.
        key: the event's id, or a part of a dedup key.
        before: dead-lettered before this time.
        since: dead-lettered at this time or later.
    """

    reason: str | None = None
    error: str | None = None
    key: str | None = None
    before: datetime | None = None
    since: datetime | None = None

    def matches(self, letter: Letter) -> bool:
        """Tell whether a letter matches."""
        pattern = error_pattern(letter.error)
        if not self.matches_failure(letter.reason, pattern, letter.sent_at):
            return False
        if self.key is None:
            return True
        event, key = event_and_key(letter)
        return self.matches_key(key.pk, event_id(event))

    def matches_failure(self, reason: str | None, pattern: str, sent_at: datetime) -> bool:
        """Tell whether the conditions on reason, error and time are met."""
        return (
            self.reason in (None, reason or DIED)
            and self.error in (None, pattern)
            and (self.before is None or sent_at < self.before)
            and (self.since is None or sent_at >= self.since)
        )

    def matches_key(self, key: str | None, event: str | None) -> bool:
        """Tell whether the condition on the key is met by a dedup key or an event's id."""
        return self.key is None or self.key in (key or "") or self.key == event


def event_id(event: CloudEvent | OnceError) -> str | None:
    """Return the id of an event; None if it cannot be read."""
    return None if isinstance(event, OnceError) else event.id
