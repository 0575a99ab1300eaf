"""Progress of long work: a redrawn line on a terminal, and a line now and then without one."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LINE_SECONDS = 15.0
"""Time between two lines without a terminal, such as in the log of a CI job."""


class LineProgress(Progress):
    """A progress display of rich that prints lines where the output is not a terminal.

    Rich itself prints nothing there until the end.

    Args:
        columns: the columns on a terminal.
        console: the console that shows it.
        line_seconds: time between two lines without a terminal.
        transient: show nothing at the end.
    """

    def __init__(
        self,
        *columns: str | ProgressColumn,
        console: Console,
        line_seconds: float = LINE_SECONDS,
        transient: bool = False,
    ) -> None:
        # Rich would print an empty line in place of a transient display without a terminal.
        hidden = transient and not console.is_terminal
        super().__init__(*columns, console=console, transient=transient, disable=hidden)
        self._line_seconds = line_seconds
        self._over = Event()
        self._lines = Thread(target=self._print_lines, daemon=True)

    def start(self) -> None:
        """Begin to show the tasks."""
        super().start()
        if not self.console.is_terminal:
            self._lines.start()

    def stop(self) -> None:
        """End the display."""
        self._over.set()
        if self._lines.is_alive():
            self._lines.join()
        if not self.disable:
            super().stop()

    def _print_lines(self) -> None:
        while not self._over.wait(self._line_seconds):
            for task in self.tasks:
                if not task.finished:
                    self.console.print(_line(task), markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of long work that is shown while it runs."""

    name: str
    _progress: Progress
    _task: TaskID

    def advance(self, count: int = 1) -> None:
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
    columns = _columns(counted=total is not None)
    with LineProgress(
        *columns, console=console, line_seconds=line_seconds, transient=True
    ) as shown:
        yield Step(name, shown, shown.add_task(name, total=total))
    seconds = time.monotonic() - started
    console.print(f"{name}: {seconds:.1f} s", style="dim", markup=False, highlight=False)


def _columns(*, counted: bool) -> list[ProgressColumn]:
    text = TextColumn("{task.description}", markup=False)
    if counted:
        return [text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    return [SpinnerColumn(), text, TimeElapsedColumn()]


def _line(task: Task) -> str:
    parts = [f"{task.elapsed or 0:.0f} s"]
    if task.total is not None:
        parts.insert(0, f"{task.completed:.0f}/{task.total:.0f}")
    if task.time_remaining:
        parts.append(f"about {task.time_remaining:.0f} s left")
    return f"{task.description}: {', '.join(parts)}"
