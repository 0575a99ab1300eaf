"""A collector for OTLP over HTTP on 127.0.0.1, which keeps what it receives."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """The requests that were received.

    Attributes:
        url: its base URL.
        status: the HTTP status of its answers.
        answers: set while it answers; cleared, requests hang.
        requests: the paths of the requests.
    """

    def __init__(self) -> None:
        self.status, self.requests = 200, list[str]()
        self.answers = threading.Event()
        self.answers.set()
        self.spans, self.metrics = list[Any](), list[Any]()
        self.url = ""

    def receive(self, path: str, body: bytes) -> None:
        self.requests.append(path)
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans += [span for scope in group.scope_spans for span in scope.spans]
        else:
            for one in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics += [metric for scope in one.scope_metrics for metric in scope.metrics]


@contextmanager
def collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.receive(self.path, body)
            found.answers.wait(20)
            self.send_response(found.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *given: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield found
        finally:
            found.answers.set()
            server.shutdown()
