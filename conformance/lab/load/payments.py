"""Payment provider of a load run: an HTTP server that counts the charges of each order."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from emulator.connection import HOST
from lab.load.traffic import order_in

CHARGE_SECONDS = 0.02
"""Duration of a charge."""
REPORTS = "/invocations"
"""Path to which functions send the reports of their invocations."""
_POLL_SECONDS = 0.05

Kill = Literal["", "before", "after"]
"""Whether the process that asks for a charge is killed, and before or after the charge is made."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One invocation, as the function itself measured it, in milliseconds.

    `is_warm` says whether its process had handled a batch before.
    """

    ms: float
    messages: int
    is_warm: bool


@dataclass(slots=True)
class Payments:
    """A provider that honours `Idempotency-Key`: one key makes one charge. Thread-safe.

    Attributes:
        url: its address.
        charges: number of charges by order.
        invocations: reports of the function that asks for the charges; `changed` is set by each.
        kill_at: says which processes are killed; asked for the first request of each order.
        kills: number of killed processes.
    """

    url: str
    charges: Counter[str] = field(default_factory=Counter)
    invocations: list[Invocation] = field(default_factory=list)
    changed: threading.Event = field(default_factory=threading.Event)
    kill_at: Callable[[str], Kill] = lambda _: ""
    kills: int = 0
    _keys: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def charge(self, order: str, key: str | None) -> bool:
        """Make a charge; return whether the process that asks for it is killed."""
        with self._lock:
            kill = "" if order in self._seen else self.kill_at(order)
            self._seen.add(order)
            self.kills += bool(kill)
        if kill != "before":
            time.sleep(CHARGE_SECONDS)
            with self._lock:
                self.charges[order] += key is None or key not in self._keys
                self._keys.update([key] if key else [])
        return bool(kill)

    def report(self, invocation: Invocation) -> None:
        """Add the report of an invocation."""
        self.invocations.append(invocation)
        self.changed.set()


@contextmanager
def payments(answer: Any) -> Iterator[Payments]:
    """Run a provider on a free port until the context ends.

    Args:
        answer: the answer to each charge, as JSON can hold it.
    """
    content = json.dumps(answer).encode()

    class Requests(BaseHTTPRequestHandler):
        """Requests for charges, and reports of invocations."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            is_report, is_killed = self.path == REPORTS, False
            if is_report:
                provider.report(Invocation(**json.loads(body)))
            else:
                is_killed = provider.charge(order_in(body), self.headers.get("Idempotency-Key"))
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", str(len(content)))
            if is_killed:
                self.send_header("Lab-Kill", "now")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer((HOST, 0), Requests) as server:
        provider = Payments(f"http://{HOST}:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=[_POLL_SECONDS], daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
