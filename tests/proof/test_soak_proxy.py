"""The proxy: an answer that it loses is of work that was done, and what it lets by is unchanged."""

import gc
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError

from demo.quiescence import wait_until
from emulator.certificate import write_certificate
from emulator.embedded_aws import HOST, EmbeddedAws
from proof.soak.drops import Drop, Drops
from proof.soak.http import headers
from proof.soak.proxy import Proxy, proxying

PATIENCE_SECONDS = 20
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
HEAD = (
    b"POST / HTTP/1.1\r\nhost: here\r\nX-Amz-Target: Any.Do\r\namz-sdk-invocation-id: 1\r\n"
    b"amz-sdk-request: attempt=1\r\nContent-Length: %d\r\n\r\n"
)
BODIES = (b"", b"ends\r\n\r\n", bytes(range(256)) * 2000)


class Handler(socketserver.StreamRequestHandler):
    """One connection to AWS: what is asked for is done, and answered when that is allowed."""

    server: "Aws"

    def handle(self) -> None:
        while request := self._request():
            self.server.done.append(request)
            assert self.server.may_answer.wait(PATIENCE_SECONDS)
            self.wfile.write(self.server.answer)

    def _request(self) -> bytes:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (line := self.rfile.readline()):
                return b""
            head += line
        return head + self.rfile.read(int(headers(head).get("content-length", 0)))


class Aws(socketserver.ThreadingTCPServer):
    """As much of AWS as a proxy sees: TLS, requests that are done, one answer for all of them."""

    daemon_threads = False  # `server_close` waits for these alone

    def __init__(self, folder: Path) -> None:
        self.done: list[bytes] = []
        self.answer = ANSWER
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.certificate, key = write_certificate(folder)
        super().__init__((HOST, 0), Handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: a connection that is cut off is what is tested."""


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Aws]:
    with Aws(tmp_path / "tls") as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def before(aws: Aws, shares: dict[Drop, float], **options: Any) -> Iterator[Proxy]:
    there = SimpleNamespace(
        port=aws.server_address[1],
        certificate=aws.certificate,
        state_dir=aws.certificate.parent,
    )
    with proxying(cast(EmbeddedAws, there), Drops(1, shares, **options)) as proxy:
        yield proxy


@contextmanager
def function(proxy: Proxy, *, attempts: int = 1) -> Iterator[Any]:
    """The SDK as a function has it."""
    retries: Any = {"mode": "standard", "total_max_attempts": attempts}
    client = boto3.client(
        "dynamodb",
        "us-east-1",
        endpoint_url=proxy.url,
        verify=str(proxy.certificate),
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(retries=retries, proxies={}, read_timeout=PATIENCE_SECONDS),
    )
    with closing(client):
        yield client


def ask(client: Any) -> Any:
    return client.delete_item(TableName="orders", Key={"id": {"S": "1"}})


def be_cut_off(client: Any) -> None:
    with pytest.raises(ConnectionClosedError):
        ask(client)


def talk(proxy: Proxy, requests: list[bytes], length: int) -> list[bytes]:
    """Send requests over one connection, and return the bytes of each answer."""
    trust = ssl.create_default_context(cafile=str(proxy.certificate))
    plain = socket.create_connection((HOST, proxy.port), timeout=PATIENCE_SECONDS)
    answers = []
    with trust.wrap_socket(plain, server_hostname=HOST) as connection:
        for request in requests:
            connection.sendall(request)
            with connection.makefile("rb") as answer:
                answers.append(answer.read(length))
    return answers


@pytest.mark.parametrize("answer", [ANSWER, CHUNKED], ids=["length", "chunked"])
def test_what_is_let_by_is_passed_on_byte_for_byte(aws: Aws, answer: bytes) -> None:
    aws.answer = answer
    requests = [HEAD % len(body) + body for body in BODIES]
    with before(aws, {}) as proxy:
        assert talk(proxy, requests, len(answer)) == [answer] * len(BODIES)
    assert aws.done == requests
    assert proxy.passed == {"Do": len(BODIES)}
    assert not proxy.dropped


def test_a_lost_answer_is_of_work_that_was_done(aws: Aws) -> None:
    with before(aws, {Drop.ANSWER_LOST: 1}) as proxy, function(proxy) as client:
        be_cut_off(client)
        assert len(aws.done) == 1
    assert proxy.dropped == {(Drop.ANSWER_LOST, "DeleteItem"): 1}
    assert not proxy.passed


def test_an_answer_is_not_lost_before_there_is_one(aws: Aws) -> None:
    aws.may_answer.clear()
    with before(aws, {Drop.ANSWER_LOST: 1}) as proxy, function(proxy) as client:
        caller = threading.Thread(target=be_cut_off, args=[client])
        caller.start()
        wait_until("done", lambda: bool(aws.done), timeout=PATIENCE_SECONDS)
        assert not proxy.dropped
        assert caller.is_alive()
        aws.may_answer.set()
        caller.join(PATIENCE_SECONDS)
        assert not caller.is_alive()
    assert proxy.dropped.total() == 1


def test_what_is_refused_is_never_done(aws: Aws) -> None:
    with before(aws, {Drop.REFUSED: 1}) as proxy, function(proxy) as client:
        be_cut_off(client)
        assert proxy.dropped == {(Drop.REFUSED, "DeleteItem"): 1}
    assert not aws.done


def test_what_is_late_is_done_when_the_caller_has_given_up(aws: Aws) -> None:
    aws.may_answer.clear()
    with before(aws, {Drop.LATE: 1}, late_seconds=0.1) as proxy, function(proxy) as client:
        be_cut_off(client)
        wait_until("done", lambda: bool(aws.done), timeout=PATIENCE_SECONDS)
        gc.collect()  # whoever waits for the answer has no caller any more who holds on to it
        aws.may_answer.set()
        wait_until("counted", lambda: proxy.dropped.total() == 1, timeout=PATIENCE_SECONDS)
        assert len(aws.done) == 1
    assert proxy.dropped == {(Drop.LATE, "DeleteItem"): 1}


def test_what_is_still_held_back_at_the_end_is_never_done(aws: Aws) -> None:
    with before(aws, {Drop.LATE: 1}, late_seconds=3600) as proxy, function(proxy) as client:
        be_cut_off(client)
    assert not aws.done
    assert not proxy.dropped


def test_the_retry_of_the_sdk_may_get_through(aws: Aws) -> None:
    shares = {Drop.ANSWER_LOST: 1.0}
    with before(aws, shares, stubborn=0) as proxy, function(proxy, attempts=2) as client:
        ask(client)
    assert len(aws.done) == 2
    assert (proxy.dropped.total(), proxy.passed.total()) == (1, 1)


def test_the_retry_of_the_sdk_may_meet_the_same(aws: Aws) -> None:
    shares = {Drop.ANSWER_LOST: 1.0}
    with before(aws, shares, stubborn=1) as proxy, function(proxy, attempts=2) as client:
        be_cut_off(client)
        assert len(aws.done) == 2
    assert (proxy.dropped.total(), proxy.passed.total()) == (2, 0)


def test_nothing_of_it_outlives_its_context(aws: Aws) -> None:
    with pytest.raises(ZeroDivisionError), before(aws, {}) as proxy:
        _ = 1 / 0
    assert "proxy" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, proxy.port))
