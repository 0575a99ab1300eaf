"""Console, common option and error handling of all commands."""

from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.text import Text
from typer.core import TyperGroup

from once.ops.errors import ExitCode, OpsError, error_with_remedy
from once.ops.terminal.formatting import escape_controls, json_text
from once.ops.terminal.line_progress import LineProgress


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
