"""Command reference: each command of a Typer or Click group, with its options, as Markdown."""

from typing import Any

import click
import typer
from typer.cli import get_docs_for_click


def reference(command: Any, name: str) -> str:
    """Return a section for each command of a group, as `typer utils docs` writes it.

    Args:
        command: the group, with all of its commands.
        name: the command under which it is installed.
    """
    context: type[Any] = typer.Context
    parts = [(command, name, 1)]
    if isinstance(command, click.Group):  # Typer lists the commands of its own groups alone
        parts += [(found, f"{name} {each}", 2) for each, found in command.commands.items()]
        context = click.Context
    text = "".join(
        get_docs_for_click(obj=found, ctx=context(found, info_name=path), name=path, indent=indent)
        for found, path, indent in parts
    )
    return text.replace("\f", "").replace("\b", "")  # marks of the terminal's layout
