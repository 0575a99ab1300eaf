"""Processes that work side by side, and that end with whoever started them."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process


@contextmanager
def workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Give processes to work with; what they have not begun is not begun when the context ends.

    Args:
        processes: how many.
    """
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_watch_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _watch_parent() -> None:
    # A parent that is killed tells nobody, and its workers would go on to the end of their work.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None  # noqa: S101
    parent.join()
    os._exit(1)
