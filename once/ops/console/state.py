"""State of a running console: its deployment, cached readings, jobs and queue depths."""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlsplit

from starlette.requests import Request

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError, error_with_remedy, is_of_aws
from once.ops.operator_notes import OperatorNotes, read_notes
from once.ops.status import QueueStatus, read_status

REFRESH_SECONDS = 120.0
"""An open page that requests itself again shows a reading of at most this age."""
QUEUE_SECONDS = 5.0
"""Time between two readings of the queues: SQS bills each of a dozen requests."""
DEPTHS, DEPTH_SECONDS = 60, 10.0
"""Bars of a queue's chart, and the time of each: at least one reading, while a page is open."""
PATIENCE_SECONDS = 0.12
"""Time that a page waits for what it shows, before it says that this is being read."""
SLOW_SECONDS = 10.0
"""Time after which a reading that is under way makes the page stale."""
_MAX_DEPTHS = 120
_MAX_KEPT = 50
_END_SECONDS = 5.0

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Reading(Generic[_T]):
    """The result of reading one thing from AWS; a page shows it with its age.

    `known` is what was read, or the first part of a first reading, and empty before. `read_at` is
    the time of the last whole reading, and `fault` why there is no newer one, as a text.
    """

    known: tuple[_T, ...]
    read_at: datetime | None
    under_way: bool
    fault: str | None = None

    @property
    def value(self) -> _T:
        """The result; raises NotReadYetError if nothing was read yet."""
        if not self.known:
            raise NotReadYetError
        return self.known[0]


class NotReadYetError(Exception):
    """A page has nothing to show yet: its first reading is under way."""


@dataclass(slots=True)
class _Kept:
    value: tuple[Any, ...] = ()
    part: tuple[Any, ...] = ()
    at: float = -inf
    read_at: datetime | None = None
    task: Future[None] | None = None
    began: float = 0
    fault: str | None = None


class Readings:
    """Cache of the latest readings by key; safe for threads.

    A reading runs in a thread of its own, and no page waits for long: it shows the last reading,
    what a first one has found so far, or that it is under way, and requests itself again.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}
        self._lock = threading.Lock()
        self.closed = False

    def latest(
        self, key: Hashable, read: Callable[[], _T], max_age: float, patience: float | None = None
    ) -> Reading[_T]:
        """Return the last reading of a key; begin a new one if it is over `max_age` seconds old.

        The key names the thing that is read, with its arguments. The call waits at most
        `PATIENCE_SECONDS`, or `patience`, for a new reading. An error of `read` is raised once.
        One of AWS is the reading's `fault` if there is an earlier result.
        """
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            if kept.task and kept.task.done() and not kept.task.exception():
                kept.task = None
            if kept.task is None and time.monotonic() - kept.at >= max_age:
                kept.task = self._begin(kept, read)
            task = kept.task
        if task is not None:
            wait([task], PATIENCE_SECONDS if patience is None else patience)
            if task.done():
                # An error is told to the page that asks next. The one after it reads anew.
                kept.task = None
                kept.fault = _fault_of(task, keeps_last=bool(kept.value))
        seconds = time.monotonic() - kept.began if kept.task else 0
        is_slow = seconds > SLOW_SECONDS
        slow = f"The next reading has taken {seconds:.0f} s so far" if is_slow else None
        known = kept.value or kept.part
        return Reading(known, kept.read_at, kept.task is not None, kept.fault or slow)

    def show(self, key: Hashable, part: object) -> None:
        """Keep the first part of a reading that is under way."""
        if self.closed:
            raise OpsError("the console has ended")
        if kept := self._kept.get(key):
            kept.part = (part,)

    def _begin(self, kept: _Kept, read: Callable[[], object]) -> Future[None]:
        task: Future[None] = Future()
        kept.began = time.monotonic()

        def run() -> None:
            try:
                kept.value = (read(),)
            except Exception as error:
                task.set_exception(error)
            else:
                kept.at, kept.read_at = time.monotonic(), datetime.now(UTC)
                task.set_result(None)
            finally:
                kept.part = ()

        for old in [*self._kept][:-_MAX_KEPT]:
            del self._kept[old]
        threading.Thread(target=run, name="reading", daemon=True).start()
        return task


def _fault_of(task: Future[None], *, keeps_last: bool) -> str | None:
    """Return the error of AWS with which a reading failed; raise it if there is no earlier one."""
    try:
        task.result()
    except Exception as error:
        if keeps_last and (isinstance(error, OpsError) or is_of_aws(error)):
            return f"AWS could not be read: {error_with_remedy(error)}"
        raise
    return None


class QueueReadings(Readings):
    """Readings of dead letters, of which only one or one change is under way at a time.

    A reading receives every message, which hides it from other commands for a moment. During a
    change, pages show the last reading.
    """

    def __init__(self) -> None:
        super().__init__()
        self._receiving = threading.Lock()
        self._is_changing = False

    def latest(
        self, key: Hashable, read: Callable[[], _T], max_age: float, patience: float | None = None
    ) -> Reading[_T]:
        """Return a reading as `Readings` does, from messages that no change holds."""

        def read_alone() -> _T:
            with self._receiving:
                return read()

        return super().latest(key, read_alone, max_age, patience)

    def close(self) -> None:
        """End the reading under way, and wait some seconds until its messages are given back."""
        self.closed = True
        if self._receiving.acquire(timeout=_END_SECONDS):
            self._receiving.release()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no reading or change of this console receive messages meanwhile."""
        if self._is_changing:
            raise OpsError(
                "a change of this console is under way and holds the dead letters: its page shows "
                "how far it is; try this again after its end"
            )
        with self._receiving:
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Wait until no other does, and let none meanwhile; then every page reads again."""
        with self._receiving:
            self._is_changing = True
            try:
                yield
            finally:
                self._is_changing = False
                self._kept.clear()


@dataclass(slots=True)
class ConsoleState:
    """A running console; with `read_only`, it offers and accepts no change.

    `plans` are the jobs, by their ids, and `started` those that were confirmed; `queues` the status
    of all queues at each of the last readings; `place` has account, region, and the endpoint if it
    is not AWS's.
    """

    deployment: Deployment
    read_only: bool = False
    messages: QueueReadings = field(default_factory=QueueReadings)
    readings: Readings = field(default_factory=Readings)
    plans: Readings = field(default_factory=Readings)
    started: list[Any] = field(default_factory=list)
    queues: deque[tuple[datetime, Sequence[QueueStatus]]] = field(
        default_factory=lambda: deque(maxlen=_MAX_DEPTHS)
    )
    place: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        sqs = client("sqs").meta
        self.place = {"region": sqs.region_name}
        for one in self.deployment.consumers.values():
            self.place = {"account": one.queue_url.split("/")[-2], **self.place}
        endpoint = sqs.endpoint_url
        if not str(urlsplit(endpoint).hostname).endswith((".amazonaws.com", ".amazonaws.com.cn")):
            self.place["endpoint"] = endpoint

    def read_queues(self, patience: float | None = None) -> Reading[Sequence[QueueStatus]]:
        """Return the status of all queues; see `Readings.latest`."""

        def read() -> Sequence[QueueStatus]:
            self.queues.append((datetime.now(UTC), read_status(self.deployment)))
            return self.queues[-1][1]

        return self.readings.latest("queues", read, QUEUE_SECONDS, patience)

    def read_notes(self) -> OperatorNotes:
        """Return what operators have noted, as far as it is read."""
        key, read = "notes", lambda: read_notes(self.deployment)
        found = self.readings.latest(key, read, QUEUE_SECONDS).known
        return found[0] if found else OperatorNotes()

    def depths(self, consumer: str, now: datetime) -> list[int]:
        """Return the largest number of messages in a consumer's queues in each `DEPTH_SECONDS`
        until now, the oldest first; 0 while nothing was read, since no page was open."""
        found: dict[int, int] = {}
        for at, rows in [*self.queues]:
            slot = max(0, int((now - at).total_seconds() // DEPTH_SECONDS))
            for row in rows:
                if row.consumer == consumer and slot < DEPTHS:
                    numbers = (row.visible, row.in_flight, row.delayed, row.isolated)
                    found[slot] = max(found.get(slot, 0), sum(filter(None, numbers)))
        return [found.get(slot, 0) for slot in range(max(found, default=0), -1, -1)]


def state_of(request: Request) -> ConsoleState:
    return cast(ConsoleState, request.app.state.console)


def max_age(request: Request, *, opened: float = 0, refreshed: float = REFRESH_SECONDS) -> float:
    """Return the age from which a page reads again, in seconds.

    The operator opens a page, or its script requests it again for a refresh.
    """
    return refreshed if request.headers.get("sec-fetch-dest") == "empty" else opened
