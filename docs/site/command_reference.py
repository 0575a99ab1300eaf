"""Command reference: each command of a Typer or Click app, with its arguments and options."""

from collections.abc import Iterator
from typing import Any

import click
import typer
from typer.cli import get_docs_for_click
from typer.main import get_command


def reference(app: typer.Typer | click.Group, name: str) -> str:
    """Return a section for each command of an app, as `typer utils docs` writes it.

    Args:
        app: the app.
        name: the command under which it is installed.
    """
    command: Any = app if isinstance(app, click.Group) else get_command(app)
    parts = [(command, name, 1)]
    if isinstance(app, click.Group):  # Typer lists the commands of its own groups alone
        parts += [(found, f"{name} {each}", 2) for each, found in app.commands.items()]
    text = ""
    for found, path, indent in parts:
        context: Any = click.Context(found, info_name=path)
        text += get_docs_for_click(obj=found, ctx=context, name=path, indent=indent)
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
