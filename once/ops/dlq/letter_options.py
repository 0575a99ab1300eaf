"""Options of the `dlq` commands, and the filter of dead letters that they describe."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import wraps
from hashlib import sha256
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

from once.ops.dead_letters.error_pattern import error_pattern
from once.ops.dead_letters.queue_history import DIED
from once.ops.dlq.letter_filter import LetterFilter
from once.ops.terminal.console import ServiceOption
from once.ops.terminal.timestamps import TIME_FORMATS, parse_time_option
from once.schema import Reason

DEFAULT_LIMIT = 10_000

_REASONS = (*Reason, DIED)

MessageIdsArgument = Annotated[
    list[str] | None,
    Argument(
        metavar="MESSAGE_ID", help="Only these dead letters; the beginning of an id is enough."
    ),
]
MessageIdArgument = Annotated[
    str, Argument(metavar="MESSAGE_ID", help="Id that `list` shows; its beginning is enough.")
]
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


def with_letter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the fields of `LetterOptions` in place of its first parameter."""
    _, *own = signature(command).parameters.values()
    shared = signature(LetterOptions).parameters.values()

    @wraps(command)
    def run(**values: Any) -> None:
        options = LetterOptions(**{option.name: values.pop(option.name) for option in shared})
        command(options, **values)

    parameters = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in (*shared, *own)]
    # Typer reads both.
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in parameters}
    return run


def _time(text: str | None, option: str) -> datetime | None:
    return parse_time_option(text, now=datetime.now(UTC), option=option) if text else None


def _digest(text: str | None) -> str | None:
    return None if text is None else f"SHA-256 {sha256(text.encode()).hexdigest()}"
