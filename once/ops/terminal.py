"""Terminal of all commands: consoles, options, errors, and values as text.

In: values, and texts that an operator or a producer wrote. Out: escaped texts, points in time.
"""

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer import BadParameter
from typer.core import TyperArgument, TyperCommand, TyperGroup

from once.ops.errors import ExitCode, OpsError, error_with_remedy, is_of_aws

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console: Console
    error_console: Console

NOT_READABLE = "not-readable"
"""Shown for a value that exists and cannot be read."""

UNKNOWN = "–"
"""Shown for a value that is not known."""

TIME_FORMATS = (
    "a date (2026-07-30), a date-time (2026-07-30T14:00, in UTC unless it has an offset), or an "
    "age (90m, 26h, 2d)"
)

_MAX_CHARACTERS = 20_000
SHA256_HEX = re.compile(r"[0-9a-f]{64}")
_AGE = re.compile(r"(?P<number>\d{1,9})(?P<unit>[mhd])", re.ASCII)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


_ASCII = {
    "✓": "+", "↩": "<", "–": "-", "…": "...", "•": "*", "→": "->", "›": ">", "×": "x", "≥": ">=",
    "“": '"', "”": '"', "’": "'", "─": "-", "━": "-",
}  # fmt: skip
_REPLACE = "once.ascii"
"""Name of a handler for characters that the encoding of a stream does not have."""


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    texts = (_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lost)
    return "".join(texts), error.end


codecs.register_error(_REPLACE, _replaced)


def adapt_streams() -> None:
    """Let stdout and stderr take any text: of another encoding than UTF-8 some glyphs are ASCII."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_REPLACE)


@cache
def _console(*, stderr: bool) -> "Console":
    """Return a console that escapes control characters, so that a text cannot control the terminal.

    A text is escaped before its width is measured; markup and emoji codes are off. A
    `rich.text.Text` is not escaped: see `escape_controls`. A table that is too wide for its
    identifiers is printed as facts.
    """
    # Not for the help: they take as long as the rest of it.
    from rich.console import Console
    from rich.table import Table

    class EscapingConsole(Console):
        def render_str(self, text: str, **options: Any) -> "Text":
            return super().render_str(with_service(escape_controls(text)), **options)

        def print(self, *objects: Any, **options: Any) -> None:
            match objects:
                case [Table() as shown] if not _fits(shown, self):
                    for line in _table_lines(shown):
                        super().print(line, soft_wrap=True)
                case _:
                    super().print(*objects, **options)

    return EscapingConsole(stderr=stderr, markup=False, emoji=False, highlight=False)


def __getattr__(name: str) -> Any:
    if name in {"console", "error_console"}:
        return _console(stderr=name == "error_console")
    raise AttributeError(name)


DEFAULT_SERVICE = "once"
SERVICE_VARIABLE = "ONCE_SERVICE"

_named_service: list[str] = []
_HINT = re.compile(r"(?<=`)once (?!local|new|settings|explain)\w[^`]*")


def _note_service(context: typer.Context, service: str) -> str:
    source = context.get_parameter_source("service")
    _named_service[:] = [service] if source is not None and source.name == "COMMANDLINE" else []
    return service


def with_service(text: str) -> str:
    """Return a text whose commands in backquotes name the service, if this command's line does."""
    told = "".join(f" --service {service}" for service in _named_service)
    return _HINT.sub(lambda hint: hint[0] + told, text)


ServiceOption = Annotated[
    str,
    typer.Option(
        "--service",
        callback=_note_service,
        envvar=SERVICE_VARIABLE,
        help="Name of the deployment, with which its stacks' names begin; otherwise the `service` "
        "of [tool.once] in pyproject.toml.",
    ),
]


class Output(StrEnum):
    """Forms of a command's result."""

    TABLE = "table"
    JSON = "json"


JsonOption = Annotated[bool, typer.Option("--json", help="The same as `--output json`.")]
"""Of every command with a result; a command that has it has `--output` as well."""

_OutputOption = Annotated[
    Output,
    typer.Option(
        "--output",
        "-o",
        metavar="json|table",
        help="The form of the result; with json, stdout has nothing else.",
    ),
]


def data_text(value: str, name: str = "--data") -> str:
    """Return the text that an argument names: a text, `@file`, or `-` for standard input."""
    if value == "-":
        return sys.stdin.read()
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadParameter(f"{value[1:]} cannot be read: {error}", param_hint=name) from None


def print_json(value: Any) -> None:
    """Print a value as one line of JSON, without control characters."""
    typer.echo(json_text(value))


class _Formatter(typer.Context.formatter_class):  # type: ignore[misc, valid-type]
    """Wraps a help at spaces alone: an option, a page or an address is not broken at its hyphen."""

    _HYPHEN = "\ue000"

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", self._HYPHEN))

    def write_dl(self, rows: Sequence[tuple[str, str]], **layout: int) -> None:
        super().write_dl([(name, text.replace("-", self._HYPHEN)) for name, text in rows], **layout)

    def getvalue(self) -> str:
        return str(super().getvalue()).replace(self._HYPHEN, "-")


class _Context(typer.Context):
    formatter_class = _Formatter


class Command(TyperCommand):
    """A command whose help names each value by its option, without types and ranges."""

    context_class = _Context

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        for parameter in self.params:
            shown: dict[str, Any] = {"_get_number_range_help_str": lambda: None}
            if isinstance(parameter, TyperArgument):
                shown["display_type_rich"] = lambda **_: None
            elif not getattr(parameter, "is_flag", False):
                shown["metavar"] = parameter.metavar or parameter.name.upper()
            vars(parameter).update(shown)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the arguments; refuse an option with one value that is given twice."""
        *_, given = self.make_parser(ctx).parse_args(args=[*args])
        for each in self.params:
            takes_one = not (each.multiple if hasattr(each, "multiple") else True)
            if takes_one and not getattr(each, "is_flag", False) and given.count(each) > 1:
                raise BadParameter("is given twice: give it once", param_hint=each.opts[0])
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """Prints an error and its remedy in place of a traceback."""

    context_class = _Context

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _console(stderr=True).print("stopped: run the same command again")
            raise typer.Exit(ExitCode.STOPPED) from None
        except Exception as error:
            if not (isinstance(error, OpsError) or is_of_aws(error)):
                raise
            _console(stderr=True).print(f"error: {error_with_remedy(error)}", soft_wrap=True)
            raise typer.Exit(getattr(error, "exit_code", ExitCode.FAILED)) from error


_Command = TypeVar("_Command", bound=Callable[..., None])


class CommandGroup(typer.Typer):
    """A group of commands; the fields of a parameter that is a dataclass are options.

    Commands that have options in common share the class, and pass on its objects.
    """

    def command(self, name: str | None = None, **settings: Any) -> Callable[[_Command], _Command]:
        add = super().command(name, cls=Command, **settings)

        def added(function: _Command) -> _Command:
            add(_with_options(function))
            return function

        return added


def command_group(*, help: str | None = None) -> CommandGroup:  # noqa: A002, typer's name
    # The help of rich takes half a second to import, and reads `[tool.once]` as markup.
    return CommandGroup(
        cls=Group, help=help, no_args_is_help=True, add_completion=False, rich_markup_mode=None
    )


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    given = signature(command).parameters
    shared = {
        name: signature(one.annotation).parameters
        for name, one in given.items()
        if isinstance(one.annotation, type) and is_dataclass(one.annotation)
    }

    @wraps(command)
    def run(**values: Any) -> None:
        if values.pop("output", None) is Output.JSON:
            values["as_json"] = True
        for name, options in shared.items():
            values[name] = given[name].annotation(**{each: values.pop(each) for each in options})
        command(**values)

    options: list[Parameter] = []
    for name, each in given.items():
        options += (shared.get(name) or {name: each}).values()
    if any(one.name == "as_json" for one in options):
        keyword, table = Parameter.KEYWORD_ONLY, Output.TABLE
        options.append(Parameter("output", keyword, default=table, annotation=_OutputOption))
    parameters = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]
    # Typer reads both.
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in parameters}
    return run


def table(*columns: str, **options: Any) -> "Table":
    """Return a table that cuts no value: the columns fold between words, and no word is broken.

    The first column has names, which do not fold; `>` before the name of a column says that it has
    numbers.
    """
    from rich.table import Table

    made = Table(**options)
    for position, name in enumerate(columns):
        if name.startswith(">"):
            made.add_column(name[1:].replace(" ", "\n"), justify="right", no_wrap=True)
        else:
            made.add_column(name, no_wrap=not position, overflow="fold")
    return made


def _fits(shown: "Table", console: "Console") -> bool:
    """Give each column of a table a width; return False if a word would be broken."""
    from rich.measure import Measurement

    wide = console.options.update_width(10**6)
    widths = []
    for column in shown.columns:
        cells = [Measurement.get(console, wide, c) for c in (column.header, *column.cells)]
        most = max(cell.maximum for cell in cells)
        widths.append((most if column.no_wrap else max(cell.minimum for cell in cells), most))
    for padding in (1, 0):
        spare = (
            console.width - len(widths) * (2 * padding + 1) - 1 - sum(least for least, _ in widths)
        )
        if spare >= 0:
            break
    else:
        return False
    shown.padding = (0, padding)
    left = len(widths)
    for column, (least, most) in sorted(
        zip(shown.columns, widths, strict=True), key=lambda each: each[1][1] - each[1][0]
    ):
        column.width = least + min(most - least, spare // left)
        spare, left = spare - (column.width - least), left - 1
    return True


def _table_lines(shown: "Table") -> Iterator["Text | str"]:
    """Yield the rows of a table as facts, each with the name of its column."""

    def text(cell: Any) -> str:
        return cell if isinstance(cell, str) else cell.plain

    yield from filter(None, [shown.title and text(shown.title)])
    names = [text(column.header).replace("\n", " ") for column in shown.columns]
    for row, *cells in zip(shown.rows, *(column.cells for column in shown.columns), strict=True):
        yield from fact_lines(zip(names, map(text, cells), strict=True), str(row.style or ""))
        yield ""
    yield from filter(None, [shown.caption and text(shown.caption)])


def fact_lines(facts: Iterable[tuple[str, str]], style: str = "") -> Iterator["Text"]:
    """Yield a line for each line of a fact, after the fact's name; to be printed with `soft_wrap`.

    A table would cut or fold a long key, which could then not be copied.
    """
    from rich.text import Text

    for name, value in facts:
        for number, line in enumerate(escape_controls(value).split("\n")):
            yield Text.assemble(
                (f"{'' if number else name:<15} "[: max(15, len(name) + 1)], "dim"), (line, style)
            )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which has an `s` in the plural."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_epoch_seconds(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


def format_age(age: timedelta) -> str:
    """Return an age in its largest unit: `3 d`, `5 h`, `12 min`, `7 s`."""
    seconds = max(0, int(age.total_seconds()))
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def format_distance(left: timedelta) -> str:
    """Return the distance of a point in time: `in 5 h`, or `5 h ago` for a negative one."""
    age = format_age(abs(left))
    return f"{age} ago" if left < timedelta() else f"in {age}"


def json_text(value: Any) -> str:
    """Return a value as JSON without control characters; `json` itself escapes all but DEL.

    Times are written in ISO 8601.
    """
    text = json.dumps(value, default=lambda at: at.isoformat(timespec="milliseconds"))
    return text.replace("\x7f", "\\u007f")


def single_line(text: str) -> str:
    """Return a text with every unprintable character escaped, line breaks included."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def first_lines(lines: Sequence[str], most: int, what: str = "") -> list[str]:
    """Return the first lines, and how many more there are."""
    more = len(lines) - most
    return [*lines[:most], *([f"and {more} more{what}"] if more > 0 else [])]


def shortened(text: str, remedy: str = " more") -> str:
    """Return the start of a long text, with the number of the other characters."""
    more = len(text) - _MAX_CHARACTERS
    return text if more <= 0 else f"{text[:_MAX_CHARACTERS]}\n… and {more} characters{remedy}"


def escape_controls(text: str) -> str:
    """Return a text with every unprintable character escaped, except line breaks and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def parse_timestamp(text: str | None) -> datetime | None:
    """Return the point in time, in UTC, of an ISO 8601 date-time, which may have an offset.

    None if the text is not a date-time, or not a year from 1 to 9999.
    """
    try:
        return _in_utc(datetime.fromisoformat(text or ""))
    except (ValueError, OverflowError):
        return None


def from_epoch_seconds(seconds: float) -> datetime | None:
    """Return the point in time of seconds since the epoch; None if out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def parse_time_option(text: str, *, now: datetime, option: str) -> datetime:
    """Return the point in time of an option, such as `--since`, with its offset from UTC.

    The text is in one of `TIME_FORMATS`; an age counts back from `now`.
    """
    try:
        if age := _AGE.fullmatch(text.strip()):
            return now - _age(age)
        return _in_utc(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        message = f"{text!r} is no point in time: give {TIME_FORMATS}"
        raise BadParameter(message, param_hint=option) from None


def since_option(things: str) -> Any:
    help_text = f"Only {things} from this time or later: {TIME_FORMATS}."
    return typer.Option(metavar="WHEN", help=help_text)


def until_option(things: str) -> Any:
    return typer.Option(metavar="WHEN", help=f"Only {things} from before this time.")


def parse_age_option(text: str, *, option: str) -> timedelta:
    """Return the age of an option, in minutes, hours or days."""
    if age := _AGE.fullmatch(text.strip()):
        return _age(age)
    raise BadParameter(f"{text!r} is no age: give one such as 90m, 26h, 2d", param_hint=option)


def _age(found: re.Match[str]) -> timedelta:
    return int(found["number"]) * _UNITS[found["unit"]]


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
