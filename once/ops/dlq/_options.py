"""Options of the `dlq` commands, and the filter of dead letters that they make."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Self

from typer import Argument, BadParameter, Option

from once.events.cloud_event import CloudEvent
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_context import event_and_keys
from once.ops.dead_letters.queue_history import DIED
from once.ops.terminal.timestamps import TIME_FORMATS, parse_time_option
from once.schema import Reason

DEFAULT_LIMIT = 10_000

_REASONS = (*Reason, DIED)

MessageIdsArgument = Annotated[
    list[str] | None,
    Argument(metavar="MESSAGE_ID", help="These alone; the beginning of an id is enough."),
]
MessageIdArgument = Annotated[
    str, Argument(metavar="MESSAGE_ID", help="As `list` shows it; its beginning is enough.")
]
ConsumerOption = Annotated[
    str | None, Option("--consumer", help="Dead letters of this consumer alone.")
]
ReasonOption = Annotated[
    str | None,
    Option("--reason", help=f"Dead letters with this reason; `{DIED}`: with none recorded."),
]
KeyOption = Annotated[
    str | None, Option("--key", help="The event's id, or a part of its dedup key in clear.")
]
OlderThanOption = Annotated[
    str | None,
    Option("--older-than", metavar="WHEN", help=f"Dead-lettered before then: {TIME_FORMATS}."),
]
YoungerThanOption = Annotated[
    str | None, Option("--younger-than", metavar="WHEN", help="Dead-lettered since then.")
]
LimitOption = Annotated[int, Option(min=1, help="Look at so many dead letters at most.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Selects dead letters that match every condition that is not None.

    Attributes:
        reason: reason code, or `died` for letters without one.
        key: the event's id, or a part of a dedup key.
        before: dead-lettered before this time.
        since: dead-lettered at this time or later.
    """

    reason: str | None = None
    key: str | None = None
    before: datetime | None = None
    since: datetime | None = None

    @classmethod
    def parse(
        cls, reason: str | None, key: str | None, older: str | None, younger: str | None
    ) -> Self:
        """Parse the options.

        Raises:
            typer.BadParameter: an option cannot be parsed.
        """
        now = datetime.now(UTC)
        if reason is not None and reason not in _REASONS:
            raise BadParameter(
                f"{reason!r} is none: give one of {', '.join(_REASONS)}", param_hint="--reason"
            )
        return cls(
            reason=reason,
            key=key,
            before=parse_time_option(older, now=now, option="--older-than") if older else None,
            since=parse_time_option(younger, now=now, option="--younger-than") if younger else None,
        )

    def matches(self, letter: Letter) -> bool:
        """Tell whether a letter matches."""
        return (
            self.reason in (None, letter.reason or DIED)
            and (self.before is None or letter.sent_at < self.before)
            and (self.since is None or letter.sent_at >= self.since)
            and (self.key is None or _has_key(letter, self.key))
        )


def check_ids_or_filter(names: Sequence[str], letter_filter: LetterFilter) -> None:
    """Check that dead letters are named or filtered, and not both.

    Raises:
        typer.BadParameter: there are ids and a filter.
    """
    if names and letter_filter != LetterFilter():
        raise BadParameter("dead letters are named or filtered: leave the filters or the ids out")


def _has_key(letter: Letter, text: str) -> bool:
    event, keys = event_and_keys(letter)
    return isinstance(event, CloudEvent) and (text == event.id or any(text in k for k in keys))
