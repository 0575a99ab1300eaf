"""Progress of a command: a bar on a terminal, lines elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, Timer

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from once.ops.aws.clients import READ_TIMEOUT_SECONDS
from once.ops.aws.deployment import Deployment
from once.ops.terminal import console, error_console

LINE_SECONDS = 15.0
"""Time between two lines without a terminal, such as in the log of a CI job."""


class LineProgress(Progress):
    """A progress display of rich that prints lines where the output is not a terminal.

    Rich itself prints nothing there until the end. A transient display shows nothing at the end.
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
        super().start()
        if not self.console.is_terminal:
            self._lines.start()

    def stop(self) -> None:
        self._over.set()
        if self._lines.is_alive():
            self._lines.join()
        if not self.disable:
            super().stop()

    def _print_lines(self) -> None:
        while not self._over.wait(self._line_seconds):
            for task in self.tasks:
                if task.finished:
                    continue
                parts = [f"{task.elapsed or 0:.0f} s"]
                if task.total is not None:
                    parts.insert(0, f"{task.completed:.0f}/{task.total:.0f}")
                if task.time_remaining:
                    parts.append(f"about {task.time_remaining:.0f} s left")
                line = f"{task.description}: {', '.join(parts)}"
                self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def progress(*, as_json: bool = False) -> LineProgress:
    """Return a progress bar; without a terminal, a line now and then and the last state.

    With `as_json`, stdout is for JSON alone, and the bar goes to stderr.
    """
    return LineProgress(
        TextColumn("{task.description:<24}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        console=error_console if as_json else console,
    )


@contextmanager
def saying(what: str, *, after: float = 2.0) -> Iterator[None]:
    """Name a command's step on stderr, if the step takes longer than `after` seconds."""
    timer = Timer(after, lambda: error_console.print(f"{what} …", soft_wrap=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def find_deployment(service: str) -> Deployment:
    """Return a deployment; say after three seconds that AWS does not answer, see `Deployment.find`.

    Raises:
        OpsError: there is no such deployment.
    """
    wait = f"no answer of CloudFormation yet: three attempts of {READ_TIMEOUT_SECONDS} s"
    with saying(wait, after=3.0):
        return Deployment.find(service)
