"""Held requests: requests that wait until they are released, or for a delay."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Queue


@dataclass(frozen=True, eq=False)
class HeldRequest:
    """A charge request that is being held.

    Attributes:
        client_port: the client's TCP port, which identifies its process.
        metadata: the request's metadata.
        charged: whether the charge was made before the hold.
        released: set when the hold ends.
    """

    client_port: int
    metadata: Mapping[str, str]
    charged: bool
    released: threading.Event = field(default_factory=threading.Event, repr=False)

    def release(self) -> None:
        """End the hold."""
        self.released.set()


class HeldRequests:
    """All requests that wait. Thread-safe.

    Attributes:
        held: queue of the requests that are held now, oldest first.
    """

    def __init__(self) -> None:
        self.held: Queue[HeldRequest] = Queue()
        self._lock = threading.Lock()
        self._waiting: set[threading.Event] = set()
        self._ended = False

    def hold(self, held: HeldRequest, seconds: float) -> None:
        """Wait until the request is released, at most so many seconds."""
        self.held.put(held)
        self._wait(held.released, seconds)
        # A request still in the queue is removed: its port may be reused by another process.
        with self.held.mutex, suppress(ValueError):
            self.held.queue.remove(held)

    def pause(self, seconds: float) -> None:
        """Wait so many seconds, or until `end` is called."""
        self._wait(threading.Event(), seconds)

    def end(self) -> None:
        """Release all requests, and let no request wait any more."""
        with self._lock:
            self._ended = True
            for event in self._waiting:
                event.set()

    def _wait(self, event: threading.Event, seconds: float) -> None:
        with self._lock:
            if self._ended:
                return
            self._waiting.add(event)
        event.wait(seconds)
        with self._lock:
            self._waiting.discard(event)
