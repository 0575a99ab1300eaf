"""Queue history: the status of all queues, read every few seconds while a page is open."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from once.ops.console.changes import Changes
from once.ops.status import QueueStatus

SECONDS = 5.0
"""Time between two readings: SQS bills each of a dozen requests."""
_KEPT = 120


@dataclass(frozen=True, slots=True)
class Reading:
    """The status of all queues at a time, which is in seconds of the monotonic clock."""

    at: float
    rows: Sequence[QueueStatus]


class QueueHistory:
    """Readings of the last ten minutes; safe for threads.

    Args:
        read: reads the status of all queues.
        changes: told when a reading differs from the one before.
    """

    def __init__(self, read: Callable[[], Sequence[QueueStatus]], changes: Changes) -> None:
        self._read = read
        self._changes = changes
        self._readings: deque[Reading] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def latest(self) -> Reading:
        """Return the latest reading; a new one if that is too old.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: a queue cannot be read.
        """
        with self._lock:
            last = self._readings[-1] if self._readings else None
            if last is None or time.monotonic() - last.at >= SECONDS:
                self._readings.append(Reading(time.monotonic(), self._read()))
            return self._readings[-1]

    def depths(self, consumer: str) -> list[int]:
        """Return the number of messages in a consumer's queues at each reading, oldest first."""
        with self._lock:
            readings = [*self._readings]
        found = [row for one in readings for row in one.rows if row.consumer == consumer]
        return [sum(filter(None, (r.visible, r.in_flight, r.delayed, r.isolated))) for r in found]

    def follow(self, stop: threading.Event) -> None:
        """Read while pages are open, and tell them of each difference, until `stop` is set."""
        while not stop.wait(SECONDS):
            if self._changes.watchers:
                self._tell_if_different()

    def _tell_if_different(self) -> None:
        before = self._readings[-1].rows if self._readings else ()
        try:
            if self.latest().rows != before:
                self._changes.note()
        except (BotoCoreError, ClientError):  # the next request shows the error
            self._changes.note()
