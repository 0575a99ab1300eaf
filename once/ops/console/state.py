"""State of a running console: what it shows, and what it remembers while it runs."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf
from typing import Any, TypeVar, cast

from botocore.exceptions import BotoCoreError, ClientError
from starlette.requests import Request

from once.ops.aws.deployment import Deployment
from once.ops.console.jobs import Jobs
from once.ops.errors import OpsError
from once.ops.status import QueueStatus, read_status

REFRESH_SECONDS = 30.0
"""A refresh of a page shows a reading of at most this age."""
QUEUE_SECONDS = 5.0
"""Time between two readings of the queues: SQS bills each of a dozen requests."""
_MOST_DEPTHS = 120
_MOST_KEPT = 50
_LOOK_SECONDS = 0.25
_COMMENT_EVERY = 60
"""Looks without a change between two comments, by which a closed connection is noticed."""

_T = TypeVar("_T")


class PageUpdates:
    """Tells the pages that are open in a browser to read their content again.

    Any thread may note a change. `watchers` is the number of pages that are open.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self.number = 0
        self.watchers = 0

    def note(self) -> None:
        """Note that something on a page may have changed."""
        self.number = next(self._numbers)

    async def events(self, has_gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
        """Yield a server-sent event at each change, until the browser has gone."""
        seen, looks = self.number, 0
        self.watchers += 1
        try:
            yield ": open\n\n"
            while not await has_gone():
                if self.number != seen:
                    seen = self.number
                    yield f"event: change\ndata: {seen}\n\n"
                elif looks % _COMMENT_EVERY == 0:
                    yield ": still there\n\n"
                looks += 1
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self.watchers -= 1


@dataclass(slots=True)
class _Reading:
    lock: threading.Lock = field(default_factory=threading.Lock)
    at: float = -inf
    value: Any = None


class Readings:
    """What was read lately, each under its arguments; safe for threads.

    Open pages request themselves again at each change. A reading that scans a table or that AWS
    bills is not repeated for that.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Reading] = {}

    def latest(self, key: Hashable, read: Callable[[], _T], max_age: float) -> _T:
        """Return the last reading of a key if it is under `max_age` seconds old; or a new one.

        The key names what is read, with its arguments. What `read` raises is raised.
        """
        kept = self._kept.setdefault(key, _Reading())
        if time.monotonic() - kept.at < max_age:
            return cast(_T, kept.value)
        with kept.lock:  # who waits here finds the reading of another request
            if time.monotonic() - kept.at >= max_age:
                for old in [*self._kept][:-_MOST_KEPT]:
                    self._kept.pop(old, None)
                kept.value, kept.at = read(), time.monotonic()
            return cast(_T, kept.value)


class LetterReadings(Readings):
    """Readings of dead letters, of which only one or one change is under way at a time.

    A reading receives every letter, which hides it from other commands for a moment.
    """

    def __init__(self) -> None:
        super().__init__()
        self._receiving = threading.Lock()
        self._is_changing = False

    def latest(self, key: Hashable, read: Callable[[], _T], max_age: float) -> _T:
        """Return a reading as `Readings` does; during a change, the last one of any age.

        Raises:
            OpsError: see `held`. Or what `read` raises.
        """

        def read_alone() -> _T:
            with self.held():
                return read()

        return super().latest(key, read_alone, inf if self._is_changing else max_age)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no other reading or change of this console receive letters meanwhile.

        Raises:
            OpsError: a change of this console holds the letters.
        """
        if self._is_changing:
            raise OpsError(
                "a change of this console is under way and holds the dead letters: its page shows "
                "how far it is; open this page again after its end"
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


class QueueDepths:
    """Status of all queues in the last ten minutes; safe for threads.

    `updates` are told when a reading differs from the one before.
    """

    def __init__(self, read: Callable[[], Sequence[QueueStatus]], updates: PageUpdates) -> None:
        self._read = read
        self._updates = updates
        self._read_at = -inf
        self._rows: deque[Sequence[QueueStatus]] = deque(maxlen=_MOST_DEPTHS)
        self._lock = threading.Lock()

    def latest(self) -> Sequence[QueueStatus]:
        """Return the latest status; a new one if that is too old.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: a queue cannot be read.
        """
        with self._lock:
            now = time.monotonic()
            if now - self._read_at >= QUEUE_SECONDS:
                self._rows.append(self._read())
                self._read_at = now
            return self._rows[-1]

    def depths(self, consumer: str) -> list[int]:
        """Return the number of messages in a consumer's queues at each reading, oldest first."""
        with self._lock:
            found = [row for rows in self._rows for row in rows if row.consumer == consumer]
        return [sum(filter(None, (r.visible, r.in_flight, r.delayed, r.isolated))) for r in found]

    def follow(self, stop: threading.Event) -> None:
        """Read while pages are open, and tell them of each difference, until `stop` is set."""
        while not stop.wait(QUEUE_SECONDS):
            if self._updates.watchers:
                self._tell_if_different()

    def _tell_if_different(self) -> None:
        before = self._rows[-1] if self._rows else ()
        try:
            is_same = self.latest() == before
        except (BotoCoreError, ClientError):  # the next request shows the error
            is_same = False
        if not is_same:
            self._updates.note()


@dataclass(slots=True)
class ConsoleState:
    """A running console; with `read_only`, it offers and accepts no change."""

    deployment: Deployment
    read_only: bool = False
    updates: PageUpdates = field(default_factory=PageUpdates)
    letters: LetterReadings = field(default_factory=LetterReadings)
    readings: Readings = field(default_factory=Readings)
    jobs: Jobs = field(init=False)
    queues: QueueDepths = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.updates.note)
        self.queues = QueueDepths(partial(read_status, self.deployment), self.updates)


def state_of(request: Request) -> ConsoleState:
    """Return the state of the console that answers a request."""
    return cast(ConsoleState, request.app.state.console)


def max_age(request: Request, *, opened: float = 0, refreshed: float = REFRESH_SECONDS) -> float:
    """Return the age from which a page reads again, in seconds.

    The operator opens a page, or its script requests it again for a refresh.
    """
    return refreshed if request.headers.get("sec-fetch-dest") == "empty" else opened
