"""The bench's DynamoDB as a process: start, control and clients."""

import http.client
import json
import os
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3
from botocore.config import Config

from benchmarks.dynamodb import Counts
from benchmarks.latency import Delay
from benchmarks.server import CONTROL
from emulator.child_processes import running
from emulator.connection import HOST, REGION
from emulator.embedded_aws import ROOT

START_SECONDS = 30.0


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
    connection = http.client.HTTPConnection(HOST, port, timeout=START_SECONDS)
    try:
        connection.request("POST", CONTROL + command, json.dumps(request))
        answer: dict[str, Any] = json.load(connection.getresponse())
        return answer
    finally:
        connection.close()
