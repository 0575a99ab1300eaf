"""HTTPS proxy between functions and AWS, which cuts off some of their calls.

It decrypts the calls: a lost answer has arrived here completely, so AWS has executed the call.
"""

import re
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum, auto
from http.client import HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from random import Random
from threading import Event, Lock
from typing import Any

from demo.http_server import HOST, Server
from emulator.certificate import write_certificate
from emulator.embedded_aws import EmbeddedAws
from emulator.function_versions import reconfigured
from once.names import LIVE_ALIAS

_ACTION = re.compile(rb"(?:^|&)Action=(\w+)")
_FRAMING = {"transfer-encoding", "content-length"}
_TIMEOUT_SECONDS = 60.0


class Drop(StrEnum):
    """A way to cut off a call. The caller always sees a closed connection.

    Attributes:
        REFUSED: the call does not reach AWS.
        ANSWER_LOST: the call is executed, and its answer is lost.
        LATE: the call is executed some time after the connection to the caller is closed.
    """

    REFUSED = auto()
    ANSWER_LOST = auto()
    LATE = auto()


@dataclass(frozen=True)
class Drops:
    """The rates of cut-off calls.

    Attributes:
        seed: of the choice, together with the call's id.
        shares: the share of the calls that are cut off in each way, from 0 to 1.
        stubborn: the share of these whose retry by the SDK is cut off as well.
        late_seconds: the delay of a LATE call.
    """

    seed: int
    shares: Mapping[Drop, float]
    stubborn: float = 0.5
    late_seconds: float = 1.0

    def drawn(self, call: str, *, is_retry: bool) -> Drop | None:
        """Return how an attempt of a call, given by its id, is cut off; None if it is not."""
        random = Random(f"{self.seed}/{call}")
        left, is_stubborn = random.random(), random.random() < self.stubborn
        if is_retry and not is_stubborn:
            return None
        for drop, share in self.shares.items():
            left -= share
            if left < 0:
                return drop
        return None


@dataclass(frozen=True)
class Proxy:
    """A running proxy.

    Attributes:
        port: its port on 127.0.0.1.
        certificate: PEM file that its clients must trust.
        passed: number of answered attempts by operation.
        dropped: number of attempts that were cut off, by the way and the operation.
    """

    port: int
    certificate: Path
    passed: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[Drop, str]] = field(default_factory=Counter)

    @property
    def url(self) -> str:
        """The endpoint for functions."""
        return f"https://{HOST}:{self.port}"


@contextmanager
def proxying(aws: EmbeddedAws, drops: Drops) -> Iterator[Proxy]:
    """Run a proxy in front of an embedded AWS. LATE calls that wait at the end are not executed."""
    certificate, key = write_certificate(aws.state_dir / "proxy")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = _Server(aws, drops, certificate)
    # The handshake is left to the connection's thread: a slow one would block the others.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    with server.running("proxy"):
        yield server.proxy


@contextmanager
def rerouted(aws: EmbeddedAws, functions: Sequence[str], proxy: Proxy) -> Iterator[None]:
    """Let functions reach the embedded AWS through the proxy; other clients do not use it.

    The functions' processes are replaced at the beginning and at the end.
    """
    there = {"AWS_ENDPOINT_URL": proxy.url, "AWS_CA_BUNDLE": str(proxy.certificate)}
    changes = {
        name: {"Environment": {"Variables": {**_variables(aws, name), **there}}}
        for name in functions
    }
    with reconfigured(aws, LIVE_ALIAS, changes):
        yield


def _variables(aws: EmbeddedAws, function: str) -> dict[str, str]:
    configuration = aws.client("lambda").get_function_configuration(
        FunctionName=function, Qualifier=LIVE_ALIAS
    )
    return dict(configuration["Environment"]["Variables"])


class _Server(Server):
    def __init__(self, aws: EmbeddedAws, drops: Drops, certificate: Path) -> None:
        super().__init__(_Handler)
        self.proxy = Proxy(self.port, certificate)
        self.drops, self.aws_port = drops, aws.port
        self.trust = ssl.create_default_context(cafile=str(aws.certificate))
        self.over = Event()
        self._counting = Lock()

    def end(self) -> None:
        """Let no LATE call wait any more."""
        self.over.set()

    def count(self, drop: Drop | None, operation: str) -> None:
        """Count an attempt."""
        with self._counting:
            if drop is None:
                self.proxy.passed[operation] += 1
            else:
                self.proxy.dropped[drop, operation] += 1


class _Handler(BaseHTTPRequestHandler):
    """One connection of a function, with its own connection to AWS."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def handle(self) -> None:
        """Forward requests until one is cut off, or the function or AWS closes its connection."""
        self._aws = HTTPSConnection(
            HOST, self.server.aws_port, timeout=_TIMEOUT_SECONDS, context=self.server.trust
        )
        try:
            with suppress(OSError, HTTPException):
                super().handle()
        finally:
            self._aws.close()

    def do_POST(self) -> None:
        """Forward a request and its answer, unless the call is cut off."""
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            # AWS would wait for the rest of what a killed function has sent.
            raise ConnectionAbortedError(f"the client left after {len(body)} of {length} bytes")
        drop = self._drawn()
        self.close_connection = drop is not None
        if drop is Drop.LATE:
            self.server.shutdown_request(self.request)
            if self.server.over.wait(self.server.drops.late_seconds):
                return
        if drop is not Drop.REFUSED:
            self._forward(body)
            answer = self._aws.getresponse()
            content = answer.read()
        self.server.count(drop, self._operation(body))
        if drop is not None:
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _FRAMING:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _drawn(self) -> Drop | None:
        is_retry = not self.headers["amz-sdk-request"].startswith("attempt=1")
        return self.server.drops.drawn(self.headers["amz-sdk-invocation-id"], is_retry=is_retry)

    def _forward(self, body: bytes) -> None:
        self._aws.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            self._aws.putheader(name, value)
        self._aws.endheaders(body)

    def _operation(self, body: bytes) -> str:
        """Return the operation, in the form of the service's protocol."""
        if target := self.headers.get("X-Amz-Target"):
            return str(target.rpartition(".")[2])
        action = _ACTION.search(body)
        return action[1].decode() if action else f"{self.command} {self.path}"
