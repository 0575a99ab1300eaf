"""The command `settings check`: validates the settings of a consumer's function."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from once.errors import SettingsError
from once.ops import terminal
from once.ops.errors import OpsError
from once.settings import SETTINGS, Settings

app = terminal.command_group()


@app.command()
def check(
    file: Annotated[
        Path | None,
        typer.Argument(help="The file of the settings, - for the standard input."),
    ] = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Check the settings of a consumer: a file's, or those of the environment.

    Prints every fault with its remedy.
    """
    if file is not None:
        env = {SETTINGS: sys.stdin.read() if str(file) == "-" else file.read_text()}
    else:
        env = dict(os.environ)
    try:
        settings = Settings.from_env(env)
    except SettingsError as error:
        raise OpsError(str(error)) from None
    types = settings.event_types
    if as_json:
        terminal.print_json({"consumer": settings.consumer, "event_types": types})
        return
    handled = ", ".join(types)
    terminal.console.print(f"valid: the consumer {settings.consumer}, which handles {handled}")
