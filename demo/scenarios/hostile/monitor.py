"""Watches a run: when messages commit, and how much memory the functions take."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from demo.console import console
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.queue_depth import depth

_PERIOD_SECONDS = 0.5
_TELL_SECONDS = 10.0


class RunMonitor:
    """Looks at tables and function processes, again and again.

    Args:
        aws: where the service runs.
        tables: the physical names of the tables to look at, with their key attribute.
        functions: the functions whose memory is measured.
        queues: the queues whose depth is printed now and then.

    Attributes:
        seen: when each item was first seen, by its key, as `time.monotonic`.
        peak_rss_mb: the most memory that a function process has held, in megabytes.
    """

    def __init__(
        self,
        aws: EmbeddedAws,
        tables: Mapping[str, str],
        functions: Sequence[str],
        queues: Sequence[str],
    ) -> None:
        self._aws = aws
        self._sqs = aws.client("sqs")
        self._queues = queues
        self._dynamodb: Any = aws.client("dynamodb")
        self._tables = tables
        self._functions = functions
        self._over = Event()
        self.seen: dict[str, float] = {}
        self.peak_rss_mb = 0.0

    def watch(self) -> None:
        """Look until told to stop."""
        told = time.monotonic()
        while not self._over.wait(_PERIOD_SECONDS):
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                left = sum(depth(self._sqs, url).total for url in self._queues)
                console.print(f"[dim]messages left in queues: {left}", highlight=False)
            for name in self._functions:
                for process in self._aws.function_processes(name):
                    self.peak_rss_mb = max(self.peak_rss_mb, _peak_megabytes(process.pid))
            for key in self._keys():
                self.seen.setdefault(key, time.monotonic())

    def stop(self) -> None:
        """End the watch."""
        self._over.set()

    def _keys(self) -> Iterator[str]:
        for table, key in self._tables.items():
            pages = self._dynamodb.get_paginator("scan").paginate(
                TableName=table, ProjectionExpression="#key", ExpressionAttributeNames={"#key": key}
            )
            yield from (item[key]["S"] for page in pages for item in page["Items"])


@contextmanager
def monitor_run(
    aws: EmbeddedAws,
    tables: Mapping[str, str],
    functions: Sequence[str],
    queues: Sequence[str],
) -> Iterator[RunMonitor]:
    """Watch for as long as the context lasts; see `RunMonitor`."""
    watcher = RunMonitor(aws, tables, functions, queues)
    thread = Thread(target=watcher.watch, name="watcher", daemon=True)
    thread.start()
    try:
        yield watcher
    finally:
        watcher.stop()
        thread.join()


def _peak_megabytes(pid: int) -> float:
    """The kernel's own high-water mark: no peak between two looks is missed."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it ended while we were looking
        return 0.0
    lines = (line.split() for line in status.splitlines())
    return next((int(line[1]) / 1024 for line in lines if line and line[0] == "VmHWM:"), 0.0)
