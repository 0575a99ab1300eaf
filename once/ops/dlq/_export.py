"""Export: dead letters as lines of JSON in a file, complete for sending them again."""

import base64
import json
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.redriven_message import redriven_message
from once.ops.dlq._letter_json import letter_json
from once.ops.errors import OpsError, unexpected_error_text

_FOR_THE_OWNER = 0o600


def export(path: Path, letters: Iterable[Letter], now: datetime) -> dict[str, str]:
    """Write letters to a new file, a line each, and flush it to the disk.

    In each line, `send` is the input of `aws sqs send-message --cli-input-json`.

    Returns:
        The reason for each letter that is not in the file, by message id.

    Raises:
        OpsError: the file exists already, or cannot be written.
    """
    lines, faults = _lines(letters, now)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FOR_THE_OWNER)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        _flush_folder(path.parent)
    except OSError as error:
        raise OpsError(f"{error}: nothing was deleted; name another file with --export") from None
    return faults


def _lines(letters: Iterable[Letter], now: datetime) -> tuple[list[str], dict[str, str]]:
    lines: list[str] = []
    faults: dict[str, str] = {}
    for letter in letters:
        try:
            lines.append(json.dumps(_line(letter, now)) + "\n")
        except Exception as error:  # one letter must not stop the export
            faults[letter.message_id] = unexpected_error_text(error)
    return lines, faults


def _line(letter: Letter, now: datetime) -> dict[str, Any]:
    message = redriven_message(letter, now)
    return {
        **letter_json(letter),
        "error": letter.error,
        "send": {
            "QueueUrl": letter.queue.source_url,
            "MessageBody": message.body,
            "MessageAttributes": {
                name: {key: _text(part) for key, part in value.items()}
                for name, value in message.attributes.items()
            },
            **message.order,
        },
    }


def _text(part: str | bytes) -> str:
    return base64.b64encode(part).decode() if isinstance(part, bytes) else part


def _flush_folder(folder: Path) -> None:
    """Flush the folder, which holds the file's name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
