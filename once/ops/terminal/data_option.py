"""The option `--data`: a text, `@file` for the text of a file, or `-` for standard input."""

import sys
from pathlib import Path

from typer import BadParameter


def data_text(value: str) -> str:
    """Return the text that the value of the option names.

    Raises:
        typer.BadParameter: the file cannot be read.
    """
    if value == "-":
        return sys.stdin.read()
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadParameter(f"{value[1:]} cannot be read: {error}", param_hint="--data") from None
