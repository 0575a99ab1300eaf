"""The bench's DynamoDB over HTTP, in a separate process that needs much less CPU than its clients.

Run as `python -m benchmarks.server <fd>`, with a bound socket under that file descriptor.
"""

import asyncio
import json
import random
import selectors
import socket
import sys
from dataclasses import asdict
from typing import Any, cast

from benchmarks.dynamodb import CAPTURES, ORDERS, Counts, Tables
from benchmarks.latency import Delay, seconds

CONTROL = "/_bench/"
_HEAD_END = b"\r\n\r\n"


class Service:
    """Answers requests from the tables, and control requests of the bench."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.delay: Delay = 0

    def respond(self, path: str, target: str, body: bytes) -> tuple[float, bytes]:
        """Answer a request to DynamoDB, or a control request.

        Args:
            path: of the URL.
            target: the `X-Amz-Target` header, such as `DynamoDB_20120810.PutItem`.
            body: the request's body, JSON or nothing.

        Returns:
            The delay in seconds, and the bytes of the response.
        """
        request = json.loads(body or b"{}")
        if path.startswith(CONTROL):
            return 0, _response(200, self.control(path, request))
        operation = target.rpartition(".")[2]
        status, answer = self.tables.answer(operation, request)
        wait = seconds(self.delay, operation, len(request.get("TransactItems", ())))
        return wait, _response(status, answer)

    def control(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        """Execute a control request, and return the counts."""
        match path.removeprefix(CONTROL):
            case "reset":
                self.tables, self.delay = Tables(), 0
            case "faults":
                self.delay = request["delay_ms"]
                self.tables.conflicts = request["conflicts"]
                self.tables.chance = random.Random(request["seed"])
            case "count":
                self.tables.counts = Counts()
        written = self.tables.written
        return {
            "counts": asdict(self.tables.counts),
            "orders": written[ORDERS],
            "captures": written[CAPTURES],
        }


class Connection(asyncio.Protocol):
    """A client's connection, which is kept alive; its requests are answered in order."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for the answers."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer each request that has arrived completely."""
        self._received += data
        while (end := self._received.find(_HEAD_END)) >= 0:
            path, headers = _head(self._received[:end])
            start = end + len(_HEAD_END)
            stop = start + int(headers.get("content-length", 0))
            if len(self._received) < stop:
                return
            body, self._received = self._received[start:stop], self._received[stop:]
            wait, response = self._service.respond(path, headers.get("x-amz-target", ""), body)
            if wait:
                asyncio.get_running_loop().call_later(wait, self._transport.write, response)
            else:
                self._transport.write(response)


def _head(head: bytes) -> tuple[str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = (line.split(": ", 1) for line in lines)
    return first.split(" ")[1], {name.lower(): value for name, value in headers}


def _response(status: int, answer: dict[str, Any]) -> bytes:
    body = json.dumps(answer).encode()
    head = (
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Bad Request'}\r\n"
        "Content-Type: application/x-amz-json-1.0\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _serve(listener: socket.socket) -> None:
    service = Service()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(service), sock=listener
    )
    await server.serve_forever()


def _loop() -> asyncio.AbstractEventLoop:
    # Unlike epoll, select does not round every wait up to whole milliseconds.
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=_loop) as runner:
        runner.run(_serve(socket.socket(fileno=int(sys.argv[1]))))
