"""The proxy: calls are forwarded unchanged, or cut off in one of three ways."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError

from demo.http_server import Server
from demo.proxy import Drop, Drops, Proxy, proxying
from demo.quiescence import wait_until
from emulator.certificate import write_certificate
from emulator.connection import HOST
from emulator.embedded_aws import EmbeddedAws

PATIENCE_SECONDS = 20
HEADERS = {"amz-sdk-invocation-id": "1", "amz-sdk-request": "attempt=1", "X-Own": "a: b"}
BODIES = (b"", b"ends\r\n\r\n", bytes(range(256)) * 2000)
ANSWERS = {
    "length": b"HTTP/1.1 200 OK\r\nx-crc: 1\r\nContent-Length: 4\r\n\r\n{}\r\n",
    "chunked": b"HTTP/1.1 200 OK\r\nx-crc: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\n{}\r\n2\r\n\r\n\r\n0\r\n\r\n",
}


class Handler(BaseHTTPRequestHandler):
    """One connection to AWS: executes each request, and answers when it may."""

    protocol_version = "HTTP/1.1"
    server: "Aws"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.done.append((self.path, dict(self.headers.items()), body))
        assert self.server.may_answer.wait(PATIENCE_SECONDS)
        self.wfile.write(self.server.answer)

    def log_message(self, *_: Any) -> None:
        pass


class Aws(Server):
    """An HTTPS server with one answer to all requests."""

    def __init__(self, folder: Path) -> None:
        self.done: list[tuple[str, dict[str, str], bytes]] = []
        self.answer = ANSWERS["length"]
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.certificate, key = write_certificate(folder)
        super().__init__(Handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Aws]:
    server = Aws(tmp_path / "tls")
    with server.running("aws"):
        yield server


@contextmanager
def proxy_of(aws: Aws, *drops: Drop, **options: Any) -> Iterator[Proxy]:
    """A proxy that cuts off every call in the given way."""
    there = SimpleNamespace(
        port=aws.port,
        certificate=aws.certificate,
        state_dir=aws.certificate.parent,
    )
    shares = dict.fromkeys(drops, 1.0)
    with proxying(cast(EmbeddedAws, there), Drops(1, shares, **options)) as proxy:
        yield proxy


@contextmanager
def function(proxy: Proxy, *, attempts: int = 1) -> Iterator[Any]:
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


def delete(client: Any) -> Any:
    return client.delete_item(TableName="orders", Key={"id": {"S": "1"}})


def be_cut_off(client: Any) -> None:
    with pytest.raises(ConnectionClosedError):
        delete(client)


def connect(proxy: Proxy) -> closing[HTTPConnection]:
    trust = ssl.create_default_context(cafile=str(proxy.certificate))
    return closing(HTTPSConnection(HOST, proxy.port, context=trust, timeout=PATIENCE_SECONDS))


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_requests_and_answers_of_one_connection_are_forwarded_unchanged(
    aws: Aws, answer: bytes
) -> None:
    aws.answer = answer
    with proxy_of(aws) as proxy, connect(proxy) as connection:
        for body in BODIES:
            connection.request("POST", "/path?a=%20", body, HEADERS)
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, b"{}\r\n")
            assert response.headers["x-crc"] == "1"
    assert [(path, body) for path, _, body in aws.done] == [("/path?a=%20", b) for b in BODIES]
    assert all(headers.items() >= HEADERS.items() for _, headers, _ in aws.done)
    assert proxy.passed == {"POST /path?a=%20": len(BODIES)}
    assert not proxy.dropped


@pytest.mark.parametrize(
    ("headers", "body", "operation"),
    [
        ({"X-Amz-Target": "DynamoDB_20120810.GetItem"}, b"{}", "GetItem"),
        ({}, b"Action=PublishBatch&Version=1", "PublishBatch"),
        ({}, b"Version=1&Action=Publish", "Publish"),
        ({}, b"{}", "POST /v2/email"),
    ],
)
def test_a_call_is_counted_by_its_operation(
    aws: Aws, headers: dict[str, str], body: bytes, operation: str
) -> None:
    with proxy_of(aws) as proxy, connect(proxy) as connection:
        connection.request("POST", "/v2/email", body, HEADERS | headers)
        connection.getresponse().read()
    assert proxy.passed == {operation: 1}


def test_a_lost_answer_is_lost_after_the_call_is_executed(aws: Aws) -> None:
    aws.may_answer.clear()
    with proxy_of(aws, Drop.ANSWER_LOST) as proxy, function(proxy) as client:
        caller = threading.Thread(target=be_cut_off, args=[client])
        caller.start()
        wait_until("done", lambda: bool(aws.done), timeout=PATIENCE_SECONDS)
        assert not proxy.dropped
        assert caller.is_alive()
        aws.may_answer.set()
        caller.join(PATIENCE_SECONDS)
        assert not caller.is_alive()
    assert proxy.dropped == {(Drop.ANSWER_LOST, "DeleteItem"): 1}
    assert len(aws.done) == 1
    assert not proxy.passed


def test_a_refused_call_is_not_executed(aws: Aws) -> None:
    with proxy_of(aws, Drop.REFUSED) as proxy, function(proxy) as client:
        be_cut_off(client)
        assert proxy.dropped == {(Drop.REFUSED, "DeleteItem"): 1}
    assert not aws.done


def test_a_late_call_is_executed_after_the_caller_is_cut_off(aws: Aws) -> None:
    aws.may_answer.clear()
    with proxy_of(aws, Drop.LATE, late_seconds=0.1) as proxy, function(proxy) as client:
        be_cut_off(client)
        wait_until("done", lambda: bool(aws.done), timeout=PATIENCE_SECONDS)
        aws.may_answer.set()
        wait_until("counted", lambda: proxy.dropped.total() == 1, timeout=PATIENCE_SECONDS)
    assert len(aws.done) == 1
    assert proxy.dropped == {(Drop.LATE, "DeleteItem"): 1}


@pytest.mark.parametrize(("stubborn", "dropped"), [(0, 1), (1, 2)])
def test_a_retry_of_the_sdk_is_cut_off_as_well_or_passes(
    aws: Aws, stubborn: float, dropped: int
) -> None:
    with (
        proxy_of(aws, Drop.ANSWER_LOST, stubborn=stubborn) as proxy,
        function(proxy, attempts=2) as client,
    ):
        (be_cut_off if stubborn else delete)(client)
    assert len(aws.done) == 2
    assert (proxy.dropped.total(), proxy.passed.total()) == (dropped, 2 - dropped)


def test_an_incomplete_call_of_a_killed_function_is_not_forwarded(aws: Aws) -> None:
    with proxy_of(aws) as proxy, connect(proxy) as connection:
        connection.putrequest("POST", "/path")
        for name, value in {**HEADERS, "Content-Length": "10"}.items():
            connection.putheader(name, value)
        connection.endheaders(b"too few")
    assert not aws.done
    assert not proxy.passed
