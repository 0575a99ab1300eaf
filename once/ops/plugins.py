"""Plugins: further commands of `once`, registered by other distributions as entry points.

A distribution names a `typer.Typer` in the entry-point group `once.commands`. The entry point's
name is the command's.
"""

from collections.abc import Iterator
from importlib.metadata import entry_points

import typer

from once.ops.terminal.console import error_console

GROUP = "once.commands"


def plugin_commands() -> Iterator[tuple[str, typer.Typer]]:
    """Yield name and commands of each plugin; one that cannot be loaded is reported and left out.

    An operator needs the other commands, whatever the fault of a plugin is.
    """
    for entry in entry_points(group=GROUP):
        try:
            yield entry.name, entry.load()
        except Exception as error:
            name = f"{entry.name!r} ({entry.value})"
            error_console.print(f"the command {name} cannot be loaded: {error!r}", soft_wrap=True)
