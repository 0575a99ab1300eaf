"""Puts the commands together: each group of them is a module with an `app` of its own."""

from ops import dlq, outbox, send, status, trace
from ops.cli import commands

app = commands(help="Operate Once: send sample traffic, see how it is worked off, and mend it.")
app.add_typer(send.app)
app.add_typer(status.app)
app.add_typer(trace.app)
app.add_typer(outbox.app, name="outbox")
app.add_typer(dlq.app, name="dlq")

if __name__ == "__main__":
    app(prog_name="python -m ops")
