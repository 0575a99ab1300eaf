"""Console, common option and error handling of all commands."""

from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.text import Text
from typer.core import TyperGroup

from once.ops.errors import OpsError, error_with_remedy
from once.ops.terminal.formatting import escape_controls
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


class _Group(TyperGroup):
    """Prints an error and its remedy in place of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (OpsError, BotoCoreError, ClientError) as error:
            error_console.print(f"error: {error_with_remedy(error)}", soft_wrap=True)
            raise typer.Exit(getattr(error, "exit_code", 1)) from error


def command_group(*, help: str | None = None) -> typer.Typer:  # noqa: A002, the name that typer gives it
    """Return an empty group of commands."""
    return typer.Typer(cls=_Group, help=help, no_args_is_help=True, add_completion=False)


def progress() -> LineProgress:
    """Return a progress bar; without a terminal, a line now and then and the last state."""
    return LineProgress(
        TextColumn("{task.description:<24}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
    )
