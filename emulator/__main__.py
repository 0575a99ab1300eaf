"""`python -m emulator`: an empty AWS on this machine until Ctrl-C; no account, no Docker."""

import shlex
from contextlib import suppress

import typer

from emulator.embedded_aws import embedded_aws


def main() -> None:
    """Start an empty AWS, print how to reach it, and stay until Ctrl-C."""
    with suppress(KeyboardInterrupt), embedded_aws() as aws:
        for name, value in aws.environment().items():
            typer.echo(f"export {name}={shlex.quote(value)}")
        typer.echo(f"\n# For example:\naws --endpoint-url {aws.endpoint} sqs list-queues")
        typer.echo("# Ctrl-C ends it.")
        aws.wait()


if __name__ == "__main__":
    typer.run(main)
