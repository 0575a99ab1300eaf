"""Isolation of the calling process from handlers that run in it."""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path


@contextmanager
def isolated(*, output_shown: bool = False) -> Iterator[None]:
    """Keep the caller's output, log handlers and warning filters apart from the handler's.

    A handler runs hundreds of times in a check. Its prints, log lines and warnings would fill the
    caller's output, and a filter that turns warnings into errors would change what it does.

    Args:
        output_shown: send its output to stderr instead of nowhere.
    """
    with Path(os.devnull).open("w", encoding="utf-8", errors="replace") as nowhere:
        output = sys.stderr if output_shown else nowhere
        with (
            redirect_stdout(output),
            redirect_stderr(output),
            _own_logging(),
            warnings.catch_warnings(action="ignore"),
        ):
            yield


@contextmanager
def _own_logging() -> Iterator[None]:
    """Let the handler configure the root logger, and restore it."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = []
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
