"""Export: dead letters as lines of JSON in a file, from which `dlq import` puts them back."""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from once.ops.dead_letters.letter import Letter
from once.ops.dlq._exported_letter import exported_line
from once.ops.errors import OpsError, unexpected_error_text

FOLDER = Path("once-exports")
"""Exports hold customers' data: the folder is its owner's, and git ignores it."""

_FOR_THE_OWNER = 0o600


def export_files(letters: Sequence[Letter], now: datetime) -> Mapping[Path, Sequence[Letter]]:
    """Return a new file for the letters of each consumer, in `FOLDER`.

    Raises:
        OpsError: the folder cannot be made.
    """
    try:
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        (FOLDER / ".gitignore").write_text("*\n")
    except OSError as error:
        raise _not_written(error) from None
    owners = dict.fromkeys(letter.queue.owner for letter in letters)
    return {
        FOLDER / f"dlq-{owner}-{now:%Y%m%dT%H%M%SZ}.jsonl": [
            letter for letter in letters if letter.queue.owner == owner
        ]
        for owner in owners
    }


def export(path: Path, letters: Iterable[Letter]) -> dict[str, str]:
    """Write letters to a new file, a line each, and flush it to the disk.

    Returns:
        The reason for each letter that is not in the file, by message id.

    Raises:
        OpsError: the file exists already, or cannot be written.
    """
    lines, faults = _lines(letters)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FOR_THE_OWNER)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        _flush_folder(path.parent)
    except OSError as error:
        raise _not_written(error) from None
    return faults


def _lines(letters: Iterable[Letter]) -> tuple[list[str], dict[str, str]]:
    lines: list[str] = []
    faults: dict[str, str] = {}
    for letter in letters:
        try:
            lines.append(exported_line(letter) + "\n")
        except OpsError as error:
            faults[letter.message_id] = str(error)
        except Exception as error:  # one letter must not stop the export
            faults[letter.message_id] = unexpected_error_text(error)
    return lines, faults


def _flush_folder(folder: Path) -> None:
    """Flush the folder, which holds the file's name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _not_written(error: OSError) -> OpsError:
    return OpsError(f"{error}: nothing was deleted; name another file with --export")
