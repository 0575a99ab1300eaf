"""Puts the commands together: each group of them is a module with an `app` of its own."""

import sys

try:
    from once.ops import status
    from once.ops.dlq import command as dlq
    from once.ops.outbox import command as outbox
    from once.ops.terminal.console import commands
    from once.ops.trace import command as trace
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"rich", "typer"}:
        raise
    sys.exit(
        "once: the command line is an extra of the library; run pip install 'once-consumer[ops]'"
    )

app = commands(help="Operate Once: see how events are worked off, and mend what is not.")
app.add_typer(status.app)
app.add_typer(trace.app)
app.add_typer(outbox.app, name="outbox")
app.add_typer(dlq.app, name="dlq")


def main() -> None:
    """Run the command line; the entry of the console script."""
    app(prog_name="once")


if __name__ == "__main__":
    main()
