"""Background work of a demo run: a thread that ends with a context."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event


@contextmanager
def background(name: str, work: Callable[[Event], object]) -> Iterator[None]:
    """Run a function on a thread until the context ends, which sets the event.

    Raises:
        Exception: what the function raised, at the end of the context.
    """
    over = Event()
    with ThreadPoolExecutor(1, thread_name_prefix=name) as pool:
        working = pool.submit(work, over)
        try:
            yield
        finally:
            over.set()
    working.result()
