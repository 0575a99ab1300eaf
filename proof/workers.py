"""Worker processes, which end with the process that started them."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process


@contextmanager
def workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Start worker processes. Work that has not begun at the end of the context is cancelled."""
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_watch_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _watch_parent() -> None:
    # A killed parent sends no signal, and its workers would continue to the end of their work.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None  # noqa: S101
    parent.join()
    os._exit(1)
