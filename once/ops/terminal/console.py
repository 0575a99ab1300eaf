"""What the commands share: options, the console, and how a failure is told."""

from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text
from typer.core import TyperGroup

from once.ops.errors import OpsError, explained
from once.ops.terminal.formatting import harmless


class PlainConsole(Console):
    """A console that shows texts as they are, and never what a terminal would obey.

    A text is no markup, has no emoji codes, and is escaped before its width is measured. A
    `rich.text.Text` is not: see `once.ops.terminal.formatting.harmless`.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text as rich shows it."""
        return super().render_str(harmless(text), **options)


console = PlainConsole()
aside = PlainConsole(stderr=True)

Service = Annotated[
    str, typer.Option("--service", help="The deployment's name: `service` in cdk.json.")
]


class _Group(TyperGroup):
    """Tells what went wrong, and the remedy, in place of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (OpsError, BotoCoreError, ClientError) as error:
            aside.print(f"error: {explained(error)}", soft_wrap=True)
            raise typer.Exit(1) from error


def commands(*, help: str | None = None) -> typer.Typer:  # noqa: A002, the name that typer gives it
    """Return an empty group of commands."""
    return typer.Typer(cls=_Group, help=help, no_args_is_help=True, add_completion=False)


def progress() -> Progress:
    """Return a progress bar; where the output is no terminal, only its last state is printed."""
    return Progress(
        TextColumn("{task.description:<24}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
    )
