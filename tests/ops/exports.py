"""Exports of dead letters: purged into a file and imported from it."""

import json
from pathlib import Path
from typing import Any

from tests.ops.output import numbers, stdout_of

FILE = "purged.jsonl"


def purge() -> None:
    """Export every dead letter and delete it."""
    stdout_of("dlq", "purge", "--yes", "--export", FILE)


def import_(*options: object) -> dict[str, str]:
    """Import the letters; return the numbers of the table."""
    return numbers(stdout_of("dlq", "import", FILE, *options))


def lines() -> list[dict[str, Any]]:
    """The lines of the export."""
    return [json.loads(line) for line in Path(FILE).read_text().splitlines()]
