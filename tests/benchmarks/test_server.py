"""The HTTP protocol of the bench's server, and the delay of its answers."""

import asyncio
import json
from typing import Any

import pytest

from benchmarks.dynamodb import MODEL, seconds
from benchmarks.server import Connection, Service

GET = json.dumps({"TableName": "orders", "Key": {"order_id": {"S": "1"}}}).encode()


class Transport(asyncio.Transport):
    """Records the bytes that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))


def request(body: bytes, target: str = "DynamoDB_20120810.GetItem") -> bytes:
    head = f"POST / HTTP/1.1\r\nX-Amz-Target: {target}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.fixture
def connection() -> Connection:
    connection = Connection(Service())
    connection.connection_made(Transport())
    return connection


def written(connection: Connection) -> list[bytes]:
    transport: Any = connection._transport
    return list(transport.written)


def test_a_request_is_answered_when_it_is_complete(connection: Connection) -> None:
    for byte in request(GET):
        assert written(connection) == []
        connection.data_received(bytes([byte]))
    [response] = written(connection)
    assert response.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 2\r\n" in response
    assert response.endswith(b"\r\n\r\n{}")


def test_requests_of_a_connection_are_answered_in_order(connection: Connection) -> None:
    connection.data_received(request(GET) + request(GET) + request(GET)[:40])
    assert len(written(connection)) == 2
    connection.data_received(request(GET)[40:])
    assert len(written(connection)) == 3


def test_an_unknown_operation_is_answered_with_400(connection: Connection) -> None:
    connection.data_received(request(b"{}", "DynamoDB_20120810.Scan"))
    assert written(connection)[0].startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_an_answer_has_the_configured_delay_until_a_reset() -> None:
    service = Service()
    service.control("/_bench/faults", {"delay_ms": 5, "conflicts": 0, "seed": 0})
    assert service.respond("/", "DynamoDB_20120810.GetItem", GET)[0] == 0.005
    service.control("/_bench/reset", {})
    assert service.respond("/", "DynamoDB_20120810.GetItem", GET)[0] == 0


def test_control_requests_have_no_delay_and_are_not_counted() -> None:
    service = Service()
    service.control("/_bench/faults", {"delay_ms": MODEL, "conflicts": 0, "seed": 0})
    wait, response = service.respond("/_bench/seen", "", b"")
    assert wait == 0
    assert json.loads(response.partition(b"\r\n\r\n")[2])["counts"]["requests"] == 0


@pytest.mark.parametrize(
    ("operation", "items", "delay"),
    [
        ("PutItem", 0, 0.0076),
        ("BatchGetItem", 0, 0.0076),
        ("TransactWriteItems", 2, 0.0236 + 0.00068),
        ("TransactWriteItems", 20, 0.0236 + 0.0068),
    ],
)
def test_the_model_has_a_delay_for_each_operation(operation: str, items: int, delay: float) -> None:
    assert seconds(MODEL, operation, items) == pytest.approx(delay)
    assert seconds(5, operation, items) == 0.005
