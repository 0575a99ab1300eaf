"""Sandbox server: the payment API over HTTP, on threads that end with its context."""

import json
import secrets
import socket
import socketserver
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

from demo.payment_sandbox.api import PaymentApi
from demo.payment_sandbox.faults import FaultRates, PaymentFault
from demo.payment_sandbox.held_requests import HeldRequest
from demo.payment_sandbox.http_messages import Request, Response

_HOST = "127.0.0.1"
_POLL_SECONDS = 0.05
_NO_FAULTS = FaultRates()


class PaymentSandbox:
    """A running sandbox: its URL, its book of charges, and its faults. Thread-safe."""

    def __init__(self, url: str, api: PaymentApi) -> None:
        self.url = url
        self._api = api

    def charges(self) -> list[dict[str, Any]]:
        """Return the book: every charge that was made or declined, the oldest first.

        Each has `id`, `payment_intent`, `amount` (in the minor unit), `currency`, `status`
        (`succeeded` or `failed`), `transfer_group`, `metadata`, `idempotency_key` and `created`
        (in seconds since the epoch). The book can be read after the sandbox has ended.
        """
        return self._api.book.lines()

    @property
    def fired(self) -> Counter[PaymentFault]:
        """Number of faults by kind."""
        return self._api.assignment.fired

    def script(self, *faults: PaymentFault | None) -> None:
        """Assign these faults to the next executions, in order; None is no fault."""
        self._api.assignment.script(*faults)

    @property
    def faults(self) -> FaultRates:
        """Rates of random faults after the script; may be replaced at any time."""
        return self._api.assignment.faults

    @faults.setter
    def faults(self, faults: FaultRates) -> None:
        self._api.assignment.faults = faults

    @property
    def held(self) -> Queue[HeldRequest]:
        """The charge requests that are held now."""
        return self._api.holds.held


@contextmanager
def payment_sandbox(
    faults: FaultRates = _NO_FAULTS,
    *,
    key_lifetime_seconds: float = 86_400,
    clock: Callable[[], float] = time.time,
) -> Iterator[PaymentSandbox]:
    """Run a sandbox on a free port of 127.0.0.1 until the context ends.

    Args:
        faults: rates of random faults.
        key_lifetime_seconds: lifetime of an idempotency key.
        clock: returns seconds since the epoch.
    """
    api = PaymentApi(faults, key_lifetime_seconds, clock)
    server = _Server(api)
    thread = threading.Thread(target=server.serve_forever, args=[_POLL_SECONDS])
    thread.start()
    try:
        yield PaymentSandbox(f"http://{_HOST}:{server.server_address[1]}", api)
    finally:
        api.holds.end()
        server.shutdown()
        thread.join()
        server.hang_up()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """One connection: its requests, one after the other."""

    server: "_Server"
    protocol_version = "HTTP/1.1"
    # Otherwise the body waits for the acknowledgement of the headers.
    disable_nagle_algorithm = True
    timeout = 60  # in seconds; a client that neither sends nor reads does not keep its thread

    def do_GET(self) -> None:
        """Respond to a request; the API checks the method."""
        answer = self.server.api.answer(self._request())
        if answer is None:
            self.close_connection = True
        else:
            self._send(answer)

    # The names are http.server's.
    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Log nothing: the book records all charges."""

    def _request(self) -> Request:
        return Request(
            method=self.command,
            target=self.path,
            authorization=self.headers.get("Authorization") or "",
            idempotency_key=self.headers.get("Idempotency-Key") or None,
            body=self._body().decode(errors="replace"),
            client_port=self.client_address[1],
        )

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            # An incomplete request must not be executed.
            raise ConnectionAbortedError(f"the client left after {len(body)} of {length} bytes")
        return body

    def _send(self, answer: Response) -> None:
        body = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Request-Id", f"req_{secrets.token_hex(7)}")
        if answer.replayed:
            self.send_header("Idempotent-Replayed", "true")
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    """A thread for each connection; all connections are known, so that they can be closed."""

    daemon_threads = False  # `server_close` waits for these alone
    request_queue_size = 128

    def __init__(self, api: PaymentApi) -> None:
        self.api = api
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        super().__init__((_HOST, 0), _Handler)

    def server_bind(self) -> None:
        """Bind, without the look-up of the host's name, which may take seconds offline."""
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Note the connection before its thread starts."""
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection before it closes."""
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnected clients; report every other error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        """Accept no further request on any connection; responses in progress are still sent."""
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):  # the client has disconnected
                    connection.shutdown(socket.SHUT_RD)
