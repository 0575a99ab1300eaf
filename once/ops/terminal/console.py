"""Terminal of all commands: consoles, common options, progress of long work, handling of errors."""

import sys
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.text import Text
from typer.core import TyperGroup

from once.ops.errors import ExitCode, OpsError, error_with_remedy
from once.ops.terminal.formatting import escape_controls, json_text


class _EscapingConsole(Console):
    """A console that escapes control characters, so that a text cannot control the terminal.

    A text is escaped before its width is measured; markup and emoji codes are off. A
    `rich.text.Text` is not escaped: see `once.ops.terminal.formatting.escape_controls`.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text as rich shows it."""
        return super().render_str(escape_controls(text), **options)


console = _EscapingConsole()
error_console = _EscapingConsole(stderr=True)

ServiceOption = Annotated[
    str,
    typer.Option("--service", help="Name of the deployment, with which its stacks' names begin."),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print JSON, and nothing else on stdout: docs/command-line.md."),
]


def data_text(value: str) -> str:
    """Return the text that the option `--data` names: a text, `@file`, or `-` for standard input.

    Raises:
        typer.BadParameter: the file cannot be read.
    """
    if value == "-":
        return sys.stdin.read()
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(
            f"{value[1:]} cannot be read: {error}", param_hint="--data"
        ) from None


def print_json(value: Any) -> None:
    """Print a value as one line of JSON, without control characters."""
    typer.echo(json_text(value))


class _Group(TyperGroup):
    """Prints an error and its remedy in place of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            error_console.print("stopped: run the same command again")
            raise typer.Exit(ExitCode.STOPPED) from None
        except (OpsError, BotoCoreError, ClientError) as error:
            error_console.print(f"error: {error_with_remedy(error)}", soft_wrap=True)
            raise typer.Exit(getattr(error, "exit_code", ExitCode.FAILED)) from error


def command_group(*, help: str | None = None, completion: bool = False) -> typer.Typer:  # noqa: A002, the name that typer gives it
    """Return an empty group of commands; with options for shell completion if it is the root."""
    return typer.Typer(cls=_Group, help=help, no_args_is_help=True, add_completion=completion)


LINE_SECONDS = 15.0
"""Time between two lines without a terminal, such as in the log of a CI job."""


class LineProgress(Progress):
    """A progress display of rich that prints lines where the output is not a terminal.

    Rich itself prints nothing there until the end.

    Args:
        columns: the columns on a terminal.
        console: the console that shows it.
        line_seconds: time between two lines without a terminal.
        transient: show nothing at the end.
    """

    def __init__(
        self,
        *columns: str | ProgressColumn,
        console: Console,
        line_seconds: float = LINE_SECONDS,
        transient: bool = False,
    ) -> None:
        # Rich would print an empty line in place of a transient display without a terminal.
        hidden = transient and not console.is_terminal
        super().__init__(*columns, console=console, transient=transient, disable=hidden)
        self._line_seconds = line_seconds
        self._over = Event()
        self._lines = Thread(target=self._print_lines, daemon=True)

    def start(self) -> None:
        """Begin to show the tasks."""
        super().start()
        if not self.console.is_terminal:
            self._lines.start()

    def stop(self) -> None:
        """End the display."""
        self._over.set()
        if self._lines.is_alive():
            self._lines.join()
        if not self.disable:
            super().stop()

    def _print_lines(self) -> None:
        while not self._over.wait(self._line_seconds):
            for task in self.tasks:
                if not task.finished:
                    self.console.print(_line(task), markup=False, highlight=False, soft_wrap=True)


def _line(task: Task) -> str:
    parts = [f"{task.elapsed or 0:.0f} s"]
    if task.total is not None:
        parts.insert(0, f"{task.completed:.0f}/{task.total:.0f}")
    if task.time_remaining:
        parts.append(f"about {task.time_remaining:.0f} s left")
    return f"{task.description}: {', '.join(parts)}"


def progress(*, as_json: bool = False) -> LineProgress:
    """Return a progress bar; without a terminal, a line now and then and the last state.

    Args:
        as_json: whether stdout is for JSON alone, so that the bar goes to stderr.
    """
    return LineProgress(
        TextColumn("{task.description:<24}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        console=error_console if as_json else console,
    )
