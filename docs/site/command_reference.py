"""Command reference: each command of a Typer app, with its arguments and options, as Markdown."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command


def reference(app: typer.Typer, name: str) -> str:
    """Return a section for each command of an app, as `typer utils docs` writes it.

    Args:
        app: the app.
        name: the command under which it is installed.
    """
    command = get_command(app)
    context = typer.Context(command, info_name=name)
    text = get_docs_for_click(obj=command, ctx=context, name=name, indent=1)
    return text.replace("\f", "").replace("\b", "")  # marks of the terminal's layout


def commands(app: typer.Typer, name: str) -> list[str]:
    """Return the full name of each command that does something, such as `once dlq list`."""
    return list(_leaves(get_command(app), name))


def _leaves(command: Any, path: str) -> Iterator[str]:
    subcommands = getattr(command, "commands", {})
    if not subcommands:
        yield path
    for name, found in subcommands.items():
        if not found.hidden:
            yield from _leaves(found, f"{path} {name}")
