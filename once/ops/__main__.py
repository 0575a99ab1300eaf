"""The command line `once`: every command and group of commands, and those of plugins.

A plugin is another distribution that names a `typer.Typer` as an entry point of the group
`once.commands`. The entry point's name is the command's.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import entry_points, version
from typing import Annotated

from once.errors import MissingExtra, extra

try:
    with extra("ops"):
        import typer

        from once.ops import effects, outbox, send, settings, status
        from once.ops.console import command as console
        from once.ops.dead_letters import commands as dlq
        from once.ops.new import command as new
        from once.ops.terminal import command_group, error_console
        from once.ops.trace import command as trace
        from once.ops.webhooks import command as webhooks
except MissingExtra as error:
    sys.exit(f"once: {error}")

PLUGIN_GROUP = "once.commands"


def _plugin_commands() -> Iterator[tuple[str, typer.Typer]]:
    """Yield name and commands of each plugin; one that cannot be loaded is reported and left out.

    An operator needs the other commands, whatever the fault of a plugin is.
    """
    for entry in entry_points(group=PLUGIN_GROUP):
        try:
            yield entry.name, entry.load()
        except Exception as error:
            name = f"{entry.name!r} ({entry.value})"
            error_console.print(f"the command {name} cannot be loaded: {error!r}", soft_wrap=True)


app = command_group(
    help="Operate Once: see how events are processed, and repair failures.", completion=True
)
app.add_typer(status.app)
app.add_typer(trace.app)
app.add_typer(outbox.app, name="outbox")
app.add_typer(dlq.app, name="dlq")
app.add_typer(effects.app, name="effects")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(send.app)
app.add_typer(console.app)
app.add_typer(new.app, name="new")
app.add_typer(settings.app, name="settings")
for name, commands in _plugin_commands():
    app.add_typer(commands, name=name)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"once {version('once-consumer')}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; the entry of the console script."""
    try:
        with extra("ops"):  # `once console` and `once new` import further parts of it
            app(prog_name="once")
    except MissingExtra as error:
        sys.exit(f"once: {error}")


if __name__ == "__main__":
    main()
