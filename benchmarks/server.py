"""The bench's DynamoDB over HTTP, in a separate process that needs much less CPU than its clients.

`bench_server` starts, controls and ends it.

Run as `python -m benchmarks.server <fd>`, with a bound socket under that file descriptor.
"""

import asyncio
import http.client
import json
import os
import random
import selectors
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import boto3
from botocore.config import Config

from benchmarks.dynamodb import CAPTURES, ORDERS, Counts, Delay, Tables, seconds
from emulator.child_processes import running
from emulator.connection import HOST, REGION
from emulator.installed import ROOT

CONTROL = "/_bench/"
START_SECONDS = 30.0
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


@dataclass(frozen=True, slots=True)
class Seen:
    """The server's counts, and the puts of each order and each capture since the last reset."""

    counts: Counts
    orders: Counter[str]
    captures: Counter[str]


class BenchServer:
    """Controls a running server, and makes clients of it."""

    def __init__(self, port: int) -> None:
        self._port = port
        # A session caches the service descriptions; without it, each client reads them again.
        self._session = boto3.Session("bench", "bench", region_name=REGION)

    def client(self, service: str, config: Config | None = None) -> Any:
        """Return a new boto3 client of this server, independent of the process's environment.

        Args:
            service: boto3's name of the service.
            config: the client's settings; None for boto3's defaults.
        """
        return self._session.client(
            service,
            endpoint_url=f"http://{HOST}:{self._port}",
            config=Config(proxies={}).merge(config or Config()),
        )

    def reset(self) -> None:
        """Empty the tables, and disable delay and faults."""
        self._control("reset")

    def faults(self, delay_ms: Delay, *, conflicts: float, seed: int) -> None:
        """Set the delay of answers, and the share of messages that get a TransactionConflict."""
        self._control("faults", delay_ms=delay_ms, conflicts=conflicts, seed=seed)

    def count(self) -> None:
        """Set the counts to 0."""
        self._control("count")

    def seen(self) -> Seen:
        """Return the counts."""
        answer = self._control("seen")
        puts = Counter(answer["orders"]), Counter(answer["captures"])
        return Seen(Counts(**answer["counts"]), *puts)

    def _control(self, command: str, **request: Any) -> dict[str, Any]:
        return _ask(self._port, command, request)


@contextmanager
def bench_server() -> Iterator[BenchServer]:
    """Run a server on a free port of 127.0.0.1. It ends with the context, or with this process.

    Raises:
        ProcessFailed: it did not start; the message has its last lines.
    """
    with (
        TemporaryDirectory(prefix="once-bench-", ignore_cleanup_errors=True) as folder,
        socket.socket() as listener,
    ):
        # The socket is bound here and passed on, so that no other process can take the port.
        listener.bind((HOST, 0))
        port = listener.getsockname()[1]
        with running(
            "the bench's DynamoDB",
            [sys.executable, "-m", "benchmarks.server", str(listener.fileno())],
            env=dict(os.environ),
            log=Path(folder) / "server.log",
            cwd=ROOT,
            scratch=Path(folder),
            pass_fds=[listener.fileno()],
        ) as child:
            listener.close()
            child.wait_until(lambda: _answers(port), timeout=START_SECONDS)
            yield BenchServer(port)


def _answers(port: int) -> bool:
    try:
        _ask(port, "seen", {})
    except ConnectionRefusedError:
        return False
    return True


def _ask(port: int, command: str, request: dict[str, Any]) -> dict[str, Any]:
    with closing(http.client.HTTPConnection(HOST, port, timeout=START_SECONDS)) as connection:
        connection.request("POST", CONTROL + command, json.dumps(request))
        answer: dict[str, Any] = json.load(connection.getresponse())
        return answer


if __name__ == "__main__":

    async def _serve() -> None:
        service, listener = Service(), socket.socket(fileno=int(sys.argv[1]))
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(service), sock=listener)
        await server.serve_forever()

    # Unlike epoll, select does not round every wait up to whole milliseconds.
    selector = selectors.SelectSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(_serve())
