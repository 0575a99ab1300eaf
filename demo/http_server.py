"""HTTP server of a demo run: a thread for each connection, all of which end with a context."""

import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"
_POLL_SECONDS = 0.05


class Server(ThreadingHTTPServer):
    """Server on a free port of 127.0.0.1; knows its connections, so that it can close idle ones."""

    daemon_threads = False  # `server_close` waits for these alone
    request_queue_size = 128

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        super().__init__((HOST, 0), handler)
        self.port = int(self.server_address[1])

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Serve until the context ends, in a thread with a name.

        At the end no further request is accepted; responses in progress are still sent.
        """
        thread = threading.Thread(target=self.serve_forever, args=[_POLL_SECONDS], name=name)
        thread.start()
        try:
            yield
        finally:
            self.end()
            self.shutdown()
            thread.join()
            with self._lock:
                for connection in self._connections:
                    with suppress(OSError):  # the client has disconnected
                        # An SSL socket's own method would let later answers go out unencrypted.
                        socket.socket.shutdown(connection, socket.SHUT_RD)
            self.server_close()

    def end(self) -> None:
        """Release the requests that wait; called when the context ends."""

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
