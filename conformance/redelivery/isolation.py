"""Isolation of the calling process from handlers that run in it."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def isolated() -> Iterator[None]:
    """Keep the caller's log handlers and warning filters apart from the handler's.

    A handler configures the root logger as if it were alone, and a filter that turns warnings
    into errors would change what it does.
    """
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = []
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
