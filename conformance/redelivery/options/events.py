"""The option `--event`: samples of the handler's messages."""

import json
import sys
from pathlib import Path
from typing import Any


def parse_event(text: str) -> Any:
    """Return a sample: the path of a file, or for `-` the content of standard input.

    Raises:
        ValueError: there is no such file, or standard input is empty.
    """
    if text == "-":
        return _parsed(sys.stdin.read())
    path = Path(text).absolute()
    if not path.is_file():
        raise ValueError("there is no such file; give a message's body or an SQS event in a file")
    return path


def _parsed(text: str) -> Any:
    if not text.strip():
        raise ValueError("standard input is empty; pipe a message's body or an SQS event")
    try:
        return json.loads(text)
    except ValueError:
        return text
