"""The bench's DynamoDB over HTTP, in a separate process that needs much less CPU than its clients.

`bench_server` starts, controls and ends it.
"""

import asyncio
import json
import multiprocessing
import random
import selectors
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from typing import Any, cast

import boto3
from botocore.config import Config

from benchmarks.dynamodb import CAPTURES, ORDERS, Counts, Delay, Tables, seconds
from emulator.connection import HOST, REGION

_HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Seen:
    """The server's counts, and the puts of each order and each capture since the last reset."""

    counts: Counts
    orders: Counter[str]
    captures: Counter[str]


class Service:
    """Answers requests from the tables; the bench calls the other methods."""

    def __init__(self) -> None:
        self.reset()

    def respond(self, target: str, body: bytes) -> tuple[float, bytes]:
        """Return the delay of an answer in seconds, and the bytes of the response.

        `target` is the header `X-Amz-Target`, such as `DynamoDB_20120810.PutItem`.
        """
        operation, request = target.rpartition(".")[2], json.loads(body)
        status, answer = self._tables.answer(operation, request)
        wait = seconds(self._delay, operation, len(request.get("TransactItems", ())))
        content = json.dumps(answer).encode()
        head = (
            f"HTTP/1.1 {status} {'OK' if status == 200 else 'Bad Request'}\r\n"
            "Content-Type: application/x-amz-json-1.0\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        return wait, head.encode() + content

    def reset(self) -> None:
        """Empty the tables, and disable delay and faults."""
        self._tables = Tables()
        self._delay: Delay = 0

    def faults(self, delay_ms: Delay, *, conflicts: float, seed: int) -> None:
        """Set the delay of answers, and the share of messages that get a TransactionConflict."""
        self._delay = delay_ms
        self._tables.conflicts, self._tables.chance = conflicts, random.Random(seed)

    def count(self) -> None:
        """Set the counts to 0."""
        self._tables.counts = Counts()

    def seen(self) -> Seen:
        """Return the counts."""
        written = self._tables.written
        return Seen(replace(self._tables.counts), written[ORDERS], written[CAPTURES])


class Connection(asyncio.Protocol):
    """A client's connection, which is kept alive; its requests are answered in order."""

    def __init__(self, service: Service) -> None:
        self._service, self._received = service, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for the answers."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer each request that has arrived completely."""
        self._received += data
        while (end := self._received.find(_HEAD_END)) >= 0:
            lines = self._received[:end].decode("latin-1").split("\r\n")[1:]
            named = (line.split(": ", 1) for line in lines)
            headers = {name.lower(): value for name, value in named}
            start = end + len(_HEAD_END)
            stop = start + int(headers["content-length"])
            if len(self._received) < stop:
                return
            body, self._received = self._received[start:stop], self._received[stop:]
            wait, response = self._service.respond(headers["x-amz-target"], body)
            if wait:
                asyncio.get_running_loop().call_later(wait, self._transport.write, response)
            else:
                self._transport.write(response)


class BenchServer:
    """A running server: has the methods of its `Service`, and makes clients of it."""

    def __init__(self, pipe: Pipe, port: int) -> None:
        self._pipe, self._port = pipe, port
        # A session caches the service descriptions; without it, each client reads them again.
        self._session = boto3.Session("bench", "bench", region_name=REGION)

    def client(self, service: str, config: Config | None = None) -> Any:
        """Return a new boto3 client of this server, independent of the process's environment."""
        return self._session.client(
            service,
            endpoint_url=f"http://{HOST}:{self._port}",
            config=Config(proxies={}).merge(config or Config()),
        )

    def __getattr__(self, method: str) -> Any:
        """Return a method of `Service` that the other process executes."""

        def call(*arguments: Any, **options: Any) -> Any:
            self._pipe.send((method, arguments, options))
            return self._pipe.recv()

        return call


@contextmanager
def bench_server() -> Iterator[BenchServer]:
    """Run a server on a free port of 127.0.0.1. It ends with the context, or with this process."""
    context = multiprocessing.get_context("spawn")
    pipe, other_end = context.Pipe()
    process = context.Process(target=_serve, args=[other_end])
    process.start()
    other_end.close()
    with pipe:
        yield BenchServer(pipe, pipe.recv())
    process.join()


def _serve(pipe: Pipe) -> None:
    """Serve until the pipe's other end is closed: it sends calls of `Service`."""
    service = Service()
    # Unlike epoll, select does not round every wait up to whole milliseconds.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())

    def execute() -> None:
        try:
            method, arguments, options = pipe.recv()
            pipe.send(getattr(service, method)(*arguments, **options))
        except EOFError:
            loop.stop()

    server = loop.run_until_complete(loop.create_server(lambda: Connection(service), HOST, 0))
    loop.add_reader(pipe.fileno(), execute)
    pipe.send(server.sockets[0].getsockname()[1])
    loop.run_forever()
