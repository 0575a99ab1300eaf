"""Command line of the embedded AWS: `python -m local …`."""

import shlex
from contextlib import suppress

import typer

from local.aws import embedded_aws

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The embedded AWS.")


@app.callback()
def main() -> None:
    """Start an embedded AWS on this machine; no account, no Docker."""


@app.command()
def up() -> None:
    """Start an empty AWS, print how to reach it, and stay until Ctrl-C."""
    with suppress(KeyboardInterrupt), embedded_aws() as aws:
        for name, value in aws.environment().items():
            typer.echo(f"export {name}={shlex.quote(value)}")
        typer.echo(f"\n# For example:\naws --endpoint-url {aws.endpoint} sqs list-queues")
        typer.echo("# Ctrl-C ends it.")
        aws.wait()


if __name__ == "__main__":
    app()
