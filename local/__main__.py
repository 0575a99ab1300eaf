"""Command line of the embedded AWS: `python -m local …`."""

import shlex
from contextlib import suppress
from typing import Annotated

import typer

from local.aws import embedded_aws
from local.demo import Scenario
from local.demo import demo as run_demo

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


@app.command()
def demo(
    scenario: Annotated[Scenario, typer.Option(envvar="SCENARIO")] = Scenario.FAULTS,
    keep: Annotated[bool, typer.Option(envvar="KEEP")] = False,
) -> None:
    """Deploy, send orders while things go wrong, and audit; --keep leaves it running."""
    raise typer.Exit(run_demo(scenario, keep=keep))


if __name__ == "__main__":
    app()
