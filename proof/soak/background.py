"""Background threads of a soak."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from demo.report import console

PROGRESS_SECONDS = 15.0


@contextmanager
def background(name: str, work: Callable[[Event], object]) -> Iterator[None]:
    """Run a function in a thread until the context ends, which sets the event."""
    over = Event()
    thread = Thread(target=work, args=[over], name=name)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def print_progress(describe: Callable[[], str], over: Event) -> None:
    """Print a line about the progress at intervals, until the event is set."""
    started = time.monotonic()
    while not over.wait(PROGRESS_SECONDS):
        seconds = time.monotonic() - started
        console.print(f"[dim]{seconds:5.0f} s: {describe()}", highlight=False)
