"""A server on this machine that keeps the requests that it receives."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer


@dataclass(frozen=True)
class Received:
    """A request; the names of its headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """The requests so far, and the answer: a status, and a header `Location` if it has one."""

    port: int
    requests: list[Received] = field(default_factory=list)
    status: Callable[[Received], int] = lambda request: 200
    location: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Run a server on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Received("POST", self.path, headers, self.rfile.read(length))
            running.requests.append(request)
            if (status := running.status(request)) == 0:
                return  # no answer
            self.send_response(status)
            if running.location:
                self.send_header("location", running.location)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    running = Receiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
