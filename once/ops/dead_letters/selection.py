"""Selection of dead letters: by message id, or by the filter that a command's options describe."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any

from typer import BadParameter, Option

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.ops.dead_letters.assessment import event_and_key
from once.ops.dead_letters.letter import DIED, Letter
from once.ops.dead_letters.search import LetterSearch, batches_by_queue
from once.ops.errors import OpsError
from once.ops.terminal.console import ServiceOption
from once.ops.terminal.formatting import single_line
from once.ops.terminal.timestamps import TIME_FORMATS, parse_time_option
from once.schema import Reason

DEFAULT_LIMIT = 10_000

_REASONS = (*Reason, DIED)
_WHOLE_ID = 36
_MAX_IDS_SHOWN = 5

MOST_CHARACTERS = 160
NO_ERROR = "no error recorded"
"""Pattern of a letter without an error text."""

_VARIABLE = re.compile(r"[\w-]*\d[\w-]*(?:[.,:]\d[\w-]*)*")
"""A word with a digit: an id, a number, a time, an address in memory."""


def error_pattern(error: str | None) -> str:
    """Return the error's class and message with `…` in place of ids and numbers.

    Letters of one failure have the same pattern. It is one line of printable characters.

    Args:
        error: the text that a consumer has recorded; None if there is none.
    """
    first, _, _ = ((error or "").strip() or NO_ERROR).partition("\n")
    shown = _VARIABLE.sub("…", single_line(first[: 3 * MOST_CHARACTERS]))
    if len(shown) <= MOST_CHARACTERS:
        return shown
    return shown[: MOST_CHARACTERS - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Selects dead letters that match every condition that is not None.

    Attributes:
        reason: reason code, or `died` for letters without one.
        error: the pattern of the error: see `error_pattern`.
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


ConsumerOption = Annotated[
    str | None, Option("--consumer", help="Only dead letters of this consumer.")
]
LimitOption = Annotated[int, Option(min=1, help="Most dead letters to read.")]


@dataclass(frozen=True, kw_only=True)
class LetterOptions:
    """Options that `list`, `redrive` and `purge` have in common."""

    consumer: ConsumerOption = None
    reason: Annotated[
        str | None,
        Option(help=f"Only dead letters with this reason; `{DIED}` selects those without one."),
    ] = None
    error: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="Only dead letters with this error; words with a digit are not compared.",
        ),
    ] = None
    key: Annotated[
        str | None, Option(help="Only this event's: its id, or a part of its dedup key.")
    ] = None
    older_than: Annotated[
        str | None,
        Option(metavar="WHEN", help=f"Only dead letters from before this time: {TIME_FORMATS}."),
    ] = None
    younger_than: Annotated[
        str | None, Option(metavar="WHEN", help="Only dead letters from this time or later.")
    ] = None
    limit: LimitOption = DEFAULT_LIMIT
    service: ServiceOption = "once"

    def for_log(self) -> dict[str, Any]:
        """Return the options for the operator log; the key and the error by their SHA-256."""
        return {**asdict(self), "key": _digest(self.key), "error": _digest(self.error)}

    def letter_filter(self, ids: Sequence[str] = ()) -> LetterFilter:
        """Parse the options that select letters.

        Args:
            ids: message ids, which exclude these options.

        Raises:
            typer.BadParameter: an option cannot be parsed, or there are ids and a filter.
        """
        if self.reason is not None and self.reason not in _REASONS:
            raise BadParameter(
                f"{self.reason!r} is none: give one of {', '.join(_REASONS)}",
                param_hint="--reason",
            )
        found = LetterFilter(
            reason=self.reason,
            error=None if self.error is None else error_pattern(self.error),
            key=self.key,
            before=_time(self.older_than, "--older-than"),
            since=_time(self.younger_than, "--younger-than"),
        )
        if ids and found != LetterFilter():
            raise BadParameter(
                "dead letters are named or filtered: leave the filters or the ids out"
            )
        return found


def _time(text: str | None, option: str) -> datetime | None:
    return parse_time_option(text, now=datetime.now(UTC), option=option) if text else None


def _digest(text: str | None) -> str | None:
    return None if text is None else f"SHA-256 {sha256(text.encode()).hexdigest()}"


def selected_letters(
    search: LetterSearch, names: Sequence[str], letter_filter: LetterFilter
) -> Iterator[Sequence[Letter]]:
    """Yield the named letters, or those that match the filter, in batches of one queue.

    Raises:
        OpsError: see `letters_by_id`.
    """
    if names:
        yield from batches_by_queue(letters_by_id(search, names))
        return
    for page in search.walk.pages():
        yield [letter for letter in page if letter_filter.matches(letter)]


def letters_by_id(search: LetterSearch, ids: Sequence[str]) -> list[Letter]:
    """Return the letters with these message ids, or beginnings of ids.

    Those of a FIFO queue are in the order of their places in its message groups.

    Raises:
        OpsError: an id matches no letter, or more than one.
        LettersHiddenError: an id matches no letter, and other commands hide some.
    """
    found: dict[str, list[Letter]] = {name: [] for name in dict.fromkeys(ids)}
    for page in search.walk.pages():
        for letter in page:
            for name in found:
                if name and letter.message_id.startswith(name):
                    found[name].append(letter)
        if all(found.values()) and all(len(name) == _WHOLE_ID for name in found):
            break
    if not all(found.values()):
        search.count_hidden()
    chosen = [_one(search, name, letters) for name, letters in found.items()]
    different = {letter.message_id: letter for letter in chosen}.values()
    return sorted(different, key=lambda letter: letter.place)  # on a standard queue, all have 0


def _one(search: LetterSearch, name: str, letters: Sequence[Letter]) -> Letter:
    if len(letters) == 1:
        return letters[0]
    if not letters:
        unseen = f"there is no dead letter {name!r} among those that could be seen"
        if search.hidden:
            raise search.hidden.error(f"{unseen}, and ")
        raise OpsError(f"{unseen}: `once dlq list` shows them")
    some = ", ".join(letter.message_id for letter in letters[:_MAX_IDS_SHOWN])
    raise OpsError(f"{len(letters)} dead letters begin with {name!r} ({some}): give more of the id")
