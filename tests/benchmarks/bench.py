"""The bench's DynamoDB without sockets."""

from io import BytesIO
from threading import Lock
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config

from benchmarks.server import BenchServer, Service

SESSION = boto3.Session("bench", "bench", region_name="us-east-1")


class MemoryServer(BenchServer):
    """Answers like the server, without its delay."""

    def __init__(self) -> None:
        self.service = Service()
        self._one_at_a_time = Lock()

    def client(self, service: str, config: Config | None = None) -> Any:
        client = SESSION.client(service, config=config)
        client.meta.events.register_first(f"before-send.{service}", self._send)
        return client

    def __getattr__(self, method: str) -> Any:
        return getattr(self.service, method)

    def _send(self, request: Any, **_: Any) -> Any:
        target = request.headers["X-Amz-Target"].decode()
        with self._one_at_a_time:
            answer = self.service.respond(target, request.body)
        head, body = answer[1].split(b"\r\n\r\n", 1)
        status = int(head.split()[1])
        return AWSResponse(request.url, status, HTTPHeaders(), _Raw(body))


class _Raw(BytesIO):
    """A response body in the form that botocore reads."""

    def stream(self, **_: Any) -> Any:
        yield self.read()
