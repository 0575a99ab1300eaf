"""Kept readings: what a page has read, for its refreshes in the next seconds.

Open pages read themselves again at each change. A reading that scans a table or receives dead
letters is not repeated for that: it costs money, and makes the letters invisible for a moment.
"""

import time
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar, cast

from starlette.requests import Request

SECONDS = 30.0
_MOST = 50

_T = TypeVar("_T")


class KeptReadings:
    """Readings by their arguments; safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[Hashable, tuple[float, Any]] = {}

    def latest(self, request: Request, key: Hashable, read: Callable[[], _T]) -> _T:
        """Return a reading: a new one, or for a refresh one that is at most half a minute old.

        Args:
            request: a refresh is a request that the page's script sends.
            key: names what is read, with its arguments.
            read: reads it.
        """
        is_refresh = request.headers.get("sec-fetch-dest") == "empty"
        with self._lock:
            at, found = self._kept.get(key, (0.0, None))
        if is_refresh and at and time.monotonic() - at < SECONDS:
            return cast(_T, found)
        value = read()
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = (time.monotonic(), value)
            while len(self._kept) > _MOST:
                del self._kept[next(iter(self._kept))]
        return value
