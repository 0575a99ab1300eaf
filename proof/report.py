"""Reports `reports/<name>.json`, and progress bars."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
    """Show a progress bar; the context is a function that advances it by a number of steps."""
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(name, total=total)
        yield lambda steps: bar.advance(task, steps)
