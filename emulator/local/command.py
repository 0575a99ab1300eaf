"""The commands `once local up | deploy | env | table | logs | down`."""

import json
import os
import shlex
import time
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import boto3
import typer

from emulator.cdk_cli import bootstrap, is_bootstrapped
from emulator.cdk_cli import deploy as cdk_deploy
from emulator.child_processes import ProcessFailed
from emulator.connection import Connection
from emulator.installed import install_server, server_environment
from emulator.local.background import background
from emulator.local.function_logs import Entry, FunctionLogs
from emulator.local.quick_deployment import QuickDeployment
from emulator.local.steps import step
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from once.ops.progress import saying
from once.ops.terminal import ServiceOption, command_group, console, escape_controls

_FOLLOW_SECONDS = 1.0

app = command_group(help="Try consumers on an embedded AWS: no account, no Docker.")

_NEXT = """\
  once local deploy          deploys the app of this folder into it
  eval "$(once local env)"   lets this shell's AWS clients use it, such as once send
  once local table NAME      shows what a table holds
  once local down            ends it; nothing is kept"""

ContextOption = Annotated[
    list[str] | None,
    typer.Option("--context", "-c", metavar="NAME=VALUE", help="A value of the CDK context."),
]


@app.command()
def up() -> None:
    """Start an embedded AWS in the background, for the app in this folder."""
    aws = background()
    if not server_environment().exists():
        with step("embedded AWS installed, once for all folders", console=console):
            try:
                install_server()
            except ProcessFailed as error:
                raise OpsError(str(error)) from None
    started = aws.start()
    state = "runs" if started else "was running already"
    console.print(f"the embedded AWS {state}: {aws.connection().endpoint}", soft_wrap=True)
    console.print(_NEXT, soft_wrap=True)


@app.command()
def deploy(
    context: ContextOption = None,
    full: Annotated[
        bool, typer.Option("--full", help="Run `cdk deploy` even if only code has changed.")
    ] = False,
) -> None:
    """Deploy the CDK app in this folder, with the context local=true.

    If only code of handlers or of the library has changed since the last deployment, the
    functions' code alone is updated, in seconds. What templates may depend on, such as an
    event type, the registry or a requirement, needs a whole deployment.

    Then every function is loaded. The command fails if one cannot start, such as for an
    import that fails or a table that its line does not have, with the error.
    """
    connection = background().connection()
    if not Path("cdk.json").exists():
        raise OpsError(f"there is no cdk.json in {Path.cwd()}: run this in the folder of a CDK app")
    quick = QuickDeployment.of(connection, Path.cwd(), _context(context or []))
    updated = "--full was given" if full else quick.deploy()
    if isinstance(updated, list):
        console.print(f"code updated: {', '.join(updated) or 'nothing has changed'}")
    else:
        console.print(f"whole deployment: {updated}", soft_wrap=True)
        quick.restore()
        _deploy_all(connection, quick.context)
        quick.remember()
    with step("functions loaded", console=console):
        quick.load()


def _deploy_all(connection: Connection, context: Mapping[str, str]) -> None:
    warnings: list[str] = []
    try:
        if not is_bootstrapped(connection):
            with step("cdk bootstrap", console=console):
                bootstrap(connection)
        with step("cdk deploy", console=console) as shown:
            outputs = cdk_deploy(
                connection,
                cwd=Path.cwd(),
                context=context,
                outputs=connection.state_dir / "outputs.json",
                report=shown.show,
                warn=warnings.append,
            )
    except (FileNotFoundError, ProcessFailed) as error:
        raise OpsError(str(error)) from None
    for warning in warnings:
        console.print(escape_controls(warning), soft_wrap=True)
    console.print(f"deployed: {', '.join(outputs)}")


@app.command()
def env() -> None:
    """Print variables for a shell: with them, all AWS clients use the embedded AWS.

    AWS accepts none of these credentials. Version 1 of the AWS CLI does not read
    AWS_ENDPOINT_URL: use `awslocal`, which is `aws --endpoint-url` with this address.
    """
    typer.echo("unset AWS_PROFILE AWS_DEFAULT_PROFILE AWS_SESSION_TOKEN AWS_SECURITY_TOKEN")
    typer.echo('awslocal() { aws --endpoint-url "$AWS_ENDPOINT_URL" "$@"; }')
    for name, value in background().connection().environment().items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="A table of the registry, or `dedup`.")],
    service: ServiceOption = "once",
) -> None:
    """Show the items of a table, each as a line of JSON."""
    os.environ.update(background().connection().environment())
    found = Deployment.find(service)
    physical = found.dedup_table if name == "dedup" else found.table(name)
    scan = boto3.resource("dynamodb").meta.client.get_paginator("scan")
    for page in scan.paginate(TableName=physical, ConsistentRead=True):
        for item in page["Items"]:
            typer.echo(escape_controls(json.dumps(item, default=_shown, ensure_ascii=False)))


def _shown(value: Any) -> Any:
    """Return a value of DynamoDB's that JSON has no form for."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return sorted(value, key=str) if isinstance(value, set) else str(value)


@app.command()
def logs(
    consumer: Annotated[
        str | None, typer.Argument(help="A consumer, or a function; by default all.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for further entries until Ctrl-C.")
    ] = False,
) -> None:
    """Show what the functions have logged."""
    found = FunctionLogs(background().connection().client("logs"), consumer)
    with suppress(KeyboardInterrupt):
        _print(found.new_entries())
        while follow:
            time.sleep(_FOLLOW_SECONDS)
            _print(found.new_entries())


@app.command()
def down() -> None:
    """End the embedded AWS of this folder, and delete everything in it."""
    with saying("ending the embedded AWS: its functions may run for half a minute"):
        was_running = background().end()
    console.print("ended" if was_running else "none was running")


def _context(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    if wrong := [name for name, mark, _ in pairs if not mark]:
        raise typer.BadParameter(f"{wrong[0]!r} has no value: give NAME=VALUE", param_hint="-c")
    return {name: value for name, _, value in pairs}


def _print(entries: list[Entry]) -> None:
    for entry in entries:
        moment = time.strftime("%H:%M:%S", time.gmtime(entry.at / 1000))
        typer.echo(f"{moment} {entry.function}  {escape_controls(entry.text)}")
