"""The bench's server answers as DynamoDB does, counts its units, and delays its answers."""

import asyncio
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from benchmarks.dynamodb import Counts
from benchmarks.server import Connection, Service
from tests.benchmarks.bench import MemoryServer, put

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


def test_an_answer_has_the_configured_delay_until_a_reset() -> None:
    service = Service()
    service.control("/_bench/faults", {"delay_ms": 5, "conflicts": 0, "seed": 0})
    assert service.respond("/", "DynamoDB_20120810.GetItem", GET)[0] == 0.005
    service.control("/_bench/reset", {})
    assert service.respond("/", "DynamoDB_20120810.GetItem", GET)[0] == 0


CONFLICT = "TransactionConflict"


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


def test_a_failed_condition_is_reported_by_index_with_the_old_item(server: MemoryServer) -> None:
    server.transact(put("dedup", "b", "old", new=True))
    entries = [put("dedup", "a", new=True), put("orders", "1"), put("dedup", "b", "n", new=True)]
    with pytest.raises(ClientError) as caught:
        server.dynamodb.transact_write_items(TransactItems=entries)
    reasons = caught.value.response["CancellationReasons"]
    assert [r["Code"] for r in reasons] == ["None", "None", "ConditionalCheckFailed"]
    assert reasons[2]["Item"]["value"] == {"S": "old"}
    assert server.seen().orders == {}


def test_a_cancelled_transaction_has_two_counts(server: MemoryServer) -> None:
    server.transact(put("dedup", "a", new=True))
    server.count()
    assert server.transact(put("orders", "1"), put("dedup", "a", new=True))
    assert server.seen().counts == Counts(requests=1, write_units=4, write_units_least=0)


def test_a_batch_get_is_one_request_with_a_unit_for_each_key(server: MemoryServer) -> None:
    server.transact(put("dedup", "a", new=True))
    server.count()
    keys = [{"pk": {"S": key}} for key in "abc"]
    answer = server.dynamodb.batch_get_item(
        RequestItems={"dedup": {"Keys": keys, "ConsistentRead": True}}
    )
    assert [item["pk"]["S"] for item in answer["Responses"]["dedup"]] == ["a"]
    assert server.seen().counts == Counts(requests=1, read_units=3)


def test_conflicts_have_their_share_and_depend_on_the_seed(server: MemoryServer) -> None:
    def codes(seed: int) -> list[list[str]]:
        server.reset()
        server.faults(0, conflicts=0.2, seed=seed)
        return [server.transact(put("dedup", str(n), new=True)) for n in range(50)]

    found = codes(seed=1)
    assert {tuple(code) for code in found} == {(), (CONFLICT,)}
    assert server.seen().counts.conflicts == found.count([CONFLICT])
    assert 4 <= found.count([CONFLICT]) <= 16
    assert found == codes(seed=1) != codes(seed=2)
