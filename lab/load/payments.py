"""Payment provider of a load run: an HTTP server that counts the charges of each order."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from emulator.connection import HOST
from lab.load.traffic import order_in

CHARGE_SECONDS = 0.02
"""Duration of a charge."""
REPORTS = "/invocations"
"""Path to which functions send the reports of their invocations."""
_POLL_SECONDS = 0.05


class Kill(Enum):
    """The moment at which the process that asked for a charge is killed."""

    BEFORE = auto()
    """The charge is not made."""
    AFTER = auto()
    """The charge is made, its answer does not arrive."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One invocation, as the function itself measured it, in milliseconds.

    `is_warm` says whether its process had handled a batch before.
    """

    ms: float
    messages: int
    is_warm: bool


class Payments:
    """A provider that honours `Idempotency-Key`: one key makes one charge. Thread-safe.

    Attributes:
        charges: number of charges by order.
        invocations: reports of the function that asks for the charges; `changed` is set by each.
        answer: JSON of the answer to a charge.
        kill_at: returns when the process that charges an order is killed, if at all; asked once
            for each order.
        kill: kills the process that uses a local port, and returns whether it did.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.charges: Counter[str] = Counter()
        self.invocations: list[Invocation] = []
        self.changed = threading.Event()
        self.answer: Mapping[str, Any] = {}
        self.kill_at: Callable[[str], Kill | None] = lambda _: None
        self.kill: Callable[[int], bool] = lambda _: False
        self.kills = 0
        self._keys: set[str] = set()
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def charge(self, order: str, key: str | None, client_port: int) -> None:
        """Make a charge; kill the process that asks for it, if it is to be killed."""
        moment = self._kill_at_first(order)
        if moment is Kill.BEFORE:
            self._kill(client_port)
            return
        time.sleep(CHARGE_SECONDS)
        with self._lock:
            if key is None or key not in self._keys:
                self.charges[order] += 1
            self._keys.update([key] if key else [])
        if moment is Kill.AFTER:
            self._kill(client_port)

    def report(self, invocation: Invocation) -> None:
        """Add the report of an invocation."""
        self.invocations.append(invocation)
        self.changed.set()

    def _kill_at_first(self, order: str) -> Kill | None:
        with self._lock:
            is_first = order not in self._seen
            self._seen.add(order)
        return self.kill_at(order) if is_first else None

    def _kill(self, client_port: int) -> None:
        if self.kill(client_port):
            with self._lock:
                self.kills += 1


@contextmanager
def payments() -> Iterator[Payments]:
    """Run a provider on a free port until the context ends."""
    with _Server((HOST, 0), _Requests) as server:
        thread = threading.Thread(target=server.serve_forever, args=[_POLL_SECONDS], daemon=True)
        thread.start()
        try:
            yield server.provider
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    """The server of one provider. Its threads end with their requests."""

    def server_bind(self) -> None:
        """Take the port."""
        super().server_bind()
        self.provider = Payments(f"http://{HOST}:{self.server_address[1]}")


class _Requests(BaseHTTPRequestHandler):
    """Requests for charges, and reports of invocations."""

    server: _Server

    def do_POST(self) -> None:
        """Answer a request."""
        provider = self.server.provider
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == REPORTS:
            provider.report(Invocation(**json.loads(body)))
        else:
            key = self.headers.get("Idempotency-Key")
            provider.charge(order_in(body), key, self.client_address[1])
        self._send(json.dumps(dict(provider.answer)).encode())

    def _send(self, content: bytes) -> None:
        with suppress(ConnectionError):  # the process was killed
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
