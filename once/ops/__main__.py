"""The command line `once`: every command and group of commands."""

import sys

try:
    from once.ops import status
    from once.ops.dlq import command as dlq
    from once.ops.effects import command as effects
    from once.ops.outbox import command as outbox
    from once.ops.terminal.console import command_group
    from once.ops.trace import command as trace
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"rich", "typer"}:
        raise
    sys.exit(
        "once: the command line is an extra of the library; run pip install 'once-consumer[ops]'"
    )

app = command_group(help="Operate Once: see how events are processed, and repair failures.")
app.add_typer(status.app)
app.add_typer(trace.app)
app.add_typer(outbox.app, name="outbox")
app.add_typer(dlq.app, name="dlq")
app.add_typer(effects.app, name="effects")


def main() -> None:
    """Run the command line; the entry of the console script."""
    app(prog_name="once")


if __name__ == "__main__":
    main()
