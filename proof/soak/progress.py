"""How far a long run has come, a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from demo.console import console

EVERY_SECONDS = 15.0


@contextmanager
def telling(what: Callable[[], str]) -> Iterator[None]:
    """Print how far it has come, for as long as the context lasts."""
    started = time.monotonic()
    over = Event()

    def tell() -> None:
        while not over.wait(EVERY_SECONDS):
            seconds = time.monotonic() - started
            console.print(f"[dim]{seconds:5.0f} s: {what()}", highlight=False)

    thread = Thread(target=tell, name="progress")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
