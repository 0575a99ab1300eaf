"""Requests that wait: held until they are released, or merely late."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Queue


@dataclass(frozen=True, eq=False)
class HeldRequest:
    """A charge request that is being held.

    Attributes:
        client_port: the TCP port that its client sends from, by which to find the client's process.
        metadata: what the request notes.
        charged: whether it has been charged already.
        released: set when it need wait no longer.
    """

    client_port: int
    metadata: Mapping[str, str]
    charged: bool
    released: threading.Event = field(default_factory=threading.Event, repr=False)

    def release(self) -> None:
        """Let it go on, if it has not yet."""
        self.released.set()


class HeldRequests:
    """Every request that waits.

    Attributes:
        held: those that are held right now, the first one first.
    """

    def __init__(self) -> None:
        self.held: Queue[HeldRequest] = Queue()
        self._lock = threading.Lock()
        self._waiting: set[threading.Event] = set()
        self._ended = False

    def hold(self, held: HeldRequest, seconds: float) -> None:
        """Wait until it is released, at most so many seconds."""
        self.held.put(held)
        self._wait(held.released, seconds)
        # Where nobody took it, nobody is to find it later: by then another may have its port.
        with self.held.mutex, suppress(ValueError):
            self.held.queue.remove(held)

    def pause(self, seconds: float) -> None:
        """Wait so many seconds, or until the end."""
        self._wait(threading.Event(), seconds)

    def end(self) -> None:
        """Let everything go on that waits, and nothing wait any more."""
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
