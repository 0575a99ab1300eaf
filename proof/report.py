"""Reports `reports/<name>.json`, and progress of counted work."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from emulator.local.steps import step

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "reports"


def write(name: str, figures: Mapping[str, Any]) -> Path:
    """Write a report, replace an earlier one of that name, and return its file."""
    REPORTS.mkdir(exist_ok=True)
    file = REPORTS / f"{name}.json"
    file.write_text(json.dumps(figures, indent=2) + "\n")
    return file


@contextmanager
def progress(console: Console, name: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show the progress of counted work; the context is a function that adds steps to it."""
    with step(name, console=console, total=total) as shown:
        yield shown.advance
