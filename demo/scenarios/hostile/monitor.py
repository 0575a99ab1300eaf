"""Run monitor: records when items appear in tables, and the memory of function processes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from demo.console import console
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.clients import depth

_PERIOD_SECONDS = 0.5
_PRINT_SECONDS = 10.0


class RunMonitor:
    """Polls tables, queues and function processes.

    Args:
        aws: the AWS that the service runs on.
        tables: key attributes by physical table name.
        functions: names of the functions whose memory is measured.
        queues: URLs of the queues whose depth is printed every ten seconds.

    Attributes:
        seen: `time.monotonic` of each item's first appearance, by its key.
        peak_rss_mb: largest resident set of a function process, in megabytes.
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

    def run(self) -> None:
        """Poll until `stop` is called."""
        printed = time.monotonic()
        while not self._over.wait(_PERIOD_SECONDS):
            if time.monotonic() - printed > _PRINT_SECONDS:
                printed = time.monotonic()
                left = sum(depth(self._sqs, url).total for url in self._queues)
                console.print(f"[dim]messages left in queues: {left}", highlight=False)
            for name in self._functions:
                for process in self._aws.function_processes(name):
                    self.peak_rss_mb = max(self.peak_rss_mb, _peak_megabytes(process.pid))
            for key in self._keys():
                self.seen.setdefault(key, time.monotonic())

    def stop(self) -> None:
        """Let `run` return."""
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
    """Run a `RunMonitor` on a thread of its own until the context ends."""
    monitor = RunMonitor(aws, tables, functions, queues)
    thread = Thread(target=monitor.run, name="monitor", daemon=True)
    thread.start()
    try:
        yield monitor
    finally:
        monitor.stop()
        thread.join()


def _peak_megabytes(pid: int) -> float:
    """Return the kernel's high-water mark, which includes peaks between two polls."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # the process has ended
        return 0.0
    lines = (line.split() for line in status.splitlines())
    return next((int(line[1]) / 1024 for line in lines if line and line[0] == "VmHWM:"), 0.0)
