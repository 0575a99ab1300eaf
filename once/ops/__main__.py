"""The command line `once`: every command and group of commands, and those of plugins.

A plugin is another distribution that names a `typer.Typer` as an entry point of the group
`once.commands`. The entry point's name is the command's.

The module of a command is imported when the command runs: to import all of them takes seconds.
"""

import os
import sys
import tomllib
from importlib import import_module
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Annotated, Any

from once.errors import MissingExtra, extra

try:
    with extra("ops"):
        import typer
        from typer.core import TyperCommand
        from typer.main import get_command, get_group

        from once.ops.errors import OpsError
        from once.ops.terminal import SERVICE_VARIABLE, Group, adapt_streams
except MissingExtra as error:
    sys.exit(f"once: {error}")

PLUGIN_GROUP = "once.commands"
ENDPOINT_GROUP = "once.endpoints"
"""Functions of other distributions that return the variables of an AWS that runs for this folder,
such as an embedded one; None without one."""

COMMANDS = {
    "status": ("status", "Show queues, requests for commands, and what is stuck."),
    "pause": ("pausing", "Pause a consumer: its function receives no message."),
    "resume": ("pausing", "Let a paused consumer receive messages again."),
    "ack": ("acknowledging", "Tell other operators that you work on a consumer's failures."),
    "retries": ("retries", "Show the messages under retry, and open circuit breakers."),
    "trace": (
        "trace.trace_command",
        "Show what was done with an event and its results, or a command.",
    ),
    "outbox": ("republication", "Committed events: list those that wait, publish again."),
    "dlq": ("dead_letters.dlq_commands", "Dead letters: list, show, redrive, purge, import."),
    "effects": ("pending_effects", "Effects: list the pending ones, settle one by hand."),
    "region": ("region_takeover", "Two Regions: show both, fail over, fail back, reconcile."),
    "webhooks": ("webhooks.webhook_commands", "Webhooks: list, show, replay, send, listen."),
    "send": ("send", "Publish an event to the ingress topic, or send a command."),
    "explain": ("explain", "Show the page about a reason, an alarm or a command."),
    "console": ("console.server", "Serve pages that show the deployment and repair failures."),
    "new": ("new.new_commands", "Begin: write a consumer, or a service of your own."),
    "lock": ("new.lock_command", "Lock the packages of functions, with hashes."),
    "former": ("former_key", "Look for the former record of an event, before Once takes over."),
    "settings": ("settings_check", "Settings: what a function needs to know of its deployment."),
    "template": (
        "template_commands",
        "Write CloudFormation templates for another tool than the CDK.",
    ),
    "package": ("template_commands", "Write the packages of all functions as zip files."),
}
"""The module of each command in `once.ops`, and the command's line in the list of commands."""


WITHOUT_AWS = {"explain", "new", "lock", "settings", "template", "package"}
"""Commands that call no AWS, or that of the environment alone."""

ELSEWHERE = {
    "local": "`pip install once-local`, or until it is on an index the wheel once_local that "
    "`make wheels` writes in a checkout of the library's repository"
}
"""Commands of packages that may be missing, and how to get them."""


class _Root(Group):
    """The commands as the list of commands shows them; each is loaded when it runs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._plugins = {entry.name: entry for entry in entry_points(group=PLUGIN_GROUP)}
        lines = {name: line for name, (_, line) in COMMANDS.items()}
        for name, entry in self._plugins.items():
            lines[name] = str(entry.dist.metadata["Summary"]) if entry.dist else entry.value
        self.commands = {name: TyperCommand(name, help=line) for name, line in lines.items()}

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line with streams that take every text."""
        adapt_streams()
        return super().main(*arguments, **options)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; of one in a distribution that is missing, say how to get it."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in ELSEWHERE:
            raise OpsError(f"`once {cmd_name}` is in another package: {ELSEWHERE[cmd_name]}")
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command that the arguments begin with, the command, the rest."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and self.load(str(name)), rest

    def load(self, name: str) -> Any:
        """Return a command with its options, or a group with its commands."""
        if plugin := self._plugins.get(name):
            try:
                return get_command(plugin.load())
            except Exception as error:
                fault = f"the command {name!r} ({plugin.value}) cannot be loaded: {error!r}"
                raise OpsError(fault) from error
        module, line = COMMANDS[name]
        if name not in WITHOUT_AWS:
            _use_aws_of_folder()
        group = get_group(import_module(f"once.ops.{module}").app)
        if found := group.commands.get(name):
            return found
        group.name, group.help = name, line
        return group


def _use_aws_of_folder() -> None:
    """Use the AWS that runs for this folder, unless the environment names one; tell of it."""
    if "AWS_ENDPOINT_URL" in os.environ:
        return
    found = filter(None, (each.load()() for each in entry_points(group=ENDPOINT_GROUP)))
    for variables in found:
        where = f"the embedded AWS of this folder, {variables['AWS_ENDPOINT_URL']}"
        if named := [each for each in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID") if each in os.environ]:
            use = f'because of {named[0]}; `eval "$(once local env)"` leads to {where}'
            typer.echo(f"using AWS, {use}", err=True)
        else:
            os.environ.update(variables)
            typer.echo(f"using {where}; AWS_PROFILE leads to AWS", err=True)


def command_line() -> Any:
    """Return the whole command line, with every command loaded."""
    root: Any = get_command(app)
    root.commands = {name: root.load(name) for name in root.commands}
    return root


app = typer.Typer(
    cls=_Root,
    help="Operate Once: see how events are processed, and repair failures.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


def _service_of_project(file: Path) -> str:
    """Return the `service` of [tool.once]; a project without one has the default."""
    try:
        found = tomllib.loads(file.read_text())["tool"]["once"]["service"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return str(found)


_QUIET = {
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "18,20",
    "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
    "NODE_NO_WARNINGS": "1",
}
"""The banners of Node and of the CDK's bridge to it are longer than what a command prints."""


def main() -> None:
    """Run the command line; the entry of the console script."""
    os.environ.update({name: value for name, value in _QUIET.items() if name not in os.environ})
    if found := _service_of_project(Path("pyproject.toml")):
        os.environ.setdefault(SERVICE_VARIABLE, found)
    try:
        with extra("ops"):  # `once console` and `once new` import further parts of it
            app(prog_name="once")
    except MissingExtra as error:
        sys.exit(f"once: {error}")


if __name__ == "__main__":
    main()
