"""Steps of long work: each is shown while it runs, and with its duration when it has succeeded."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from once.ops.progress import LINE_SECONDS, LineProgress


@dataclass(frozen=True, slots=True)
class Step:
    """A step of long work that is shown while it runs."""

    name: str
    _progress: Progress
    _task: TaskID

    def advance(self, count: float = 1) -> None:
        """Add to what is done."""
        self._progress.advance(self._task, count)

    def show(self, detail: str) -> None:
        """Show what goes on, after the step's name."""
        self._progress.update(self._task, description=f"{self.name}: {detail}")


@contextmanager
def step(
    name: str, *, console: Console, total: int | None = None, line_seconds: float = LINE_SECONDS
) -> Iterator[Step]:
    """Show a step while it runs, and its duration in seconds when it has succeeded.

    Args:
        name: the name of the step.
        console: the console that shows it.
        total: how much there is to do, for `Step.advance`; None if it is not counted.
        line_seconds: time between two lines without a terminal.
    """
    started = time.monotonic()
    if not console.is_terminal:
        console.print(f"{name} …", markup=False, highlight=False)
    text = TextColumn("{task.description}", markup=False)
    columns: tuple[ProgressColumn, ...] = (SpinnerColumn(), text, TimeElapsedColumn())
    if total is not None:
        columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with LineProgress(
        *columns, console=console, line_seconds=line_seconds, transient=True
    ) as shown:
        yield Step(name, shown, shown.add_task(name, total=total))
    seconds = time.monotonic() - started
    console.print(f"{name}: {seconds:.1f} s", style="dim", markup=False, highlight=False)
