"""The bench's DynamoDB, as a real boto3 client sees it."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from benchmarks.dynamodb import Counts
from tests.benchmarks.bench import MemoryServer, put


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
def client(server: MemoryServer) -> Any:
    return server.client("dynamodb")


def transact(client: Any, *entries: dict[str, Any]) -> list[str]:
    """Commit, and return the codes of the reasons if it was cancelled."""
    try:
        client.transact_write_items(TransactItems=list(entries))
    except client.exceptions.TransactionCanceledException as error:
        return [reason["Code"] for reason in error.response["CancellationReasons"]]
    return []


def test_a_transaction_commits_all_of_it(server: MemoryServer, client: Any) -> None:
    assert transact(client, put("dedup", "a", new=True), put("orders", "1")) == []
    assert server.seen().orders == {"1": 1}
    found = client.get_item(TableName="dedup", Key={"pk": {"S": "a"}}, ConsistentRead=True)
    assert found["Item"]["pk"] == {"S": "a"}


def test_a_failed_condition_is_named_by_its_index_with_the_item_in_the_way(client: Any) -> None:
    transact(client, put("dedup", "b", "old", new=True))
    entries = [put("dedup", "a", new=True), put("orders", "1"), put("dedup", "b", "n", new=True)]
    with pytest.raises(ClientError) as caught:
        client.transact_write_items(TransactItems=entries)
    reasons = caught.value.response["CancellationReasons"]
    assert [r["Code"] for r in reasons] == ["None", "None", "ConditionalCheckFailed"]
    assert reasons[2]["Item"]["value"] == {"S": "old"}


def test_a_cancelled_transaction_changes_nothing(server: MemoryServer, client: Any) -> None:
    transact(client, put("dedup", "a", new=True))
    transact(client, put("orders", "1"), put("dedup", "a", new=True))
    assert server.seen().orders == {}


def test_units_are_those_of_dynamodb(server: MemoryServer, client: Any) -> None:
    transact(client, put("dedup", "a", new=True), put("orders", "1", "x" * 1024))
    assert server.seen().counts == Counts(requests=1, write_units=6, write_units_least=6)


def test_a_cancelled_transaction_counts_in_full_or_not_at_all(
    server: MemoryServer, client: Any
) -> None:
    transact(client, put("dedup", "a", new=True))
    server.count()
    assert transact(client, put("dedup", "a", new=True), put("orders", "1"))
    assert server.seen().counts == Counts(requests=1, write_units=4, write_units_least=0)


def test_a_refused_plain_put_is_charged_and_hands_the_item_back(
    server: MemoryServer, client: Any
) -> None:
    claim = put("idempotency", "a", "old", new=True)["Put"]
    client.put_item(**claim)
    with pytest.raises(client.exceptions.ConditionalCheckFailedException) as caught:
        client.put_item(**claim)
    assert caught.value.response["Item"]["value"] == {"S": "old"}
    assert server.seen().counts == Counts(requests=2, write_units=2, write_units_least=2)


def test_updates_and_deletes_are_kept(server: MemoryServer, client: Any) -> None:
    key = {"id": {"S": "a"}}
    client.update_item(
        TableName="idempotency",
        Key=key,
        UpdateExpression="SET #status = :status, #data = :data",
        ExpressionAttributeNames={"#status": "status", "#data": "data"},
        ExpressionAttributeValues={":status": {"S": "COMPLETED"}, ":data": {"S": "null"}},
    )
    item = client.get_item(TableName="idempotency", Key=key)["Item"]
    assert item == {**key, "status": {"S": "COMPLETED"}, "data": {"S": "null"}}
    client.delete_item(TableName="idempotency", Key=key)
    assert "Item" not in client.get_item(TableName="idempotency", Key=key)
    counts = server.seen().counts
    assert (counts.requests, counts.write_units, counts.read_units) == (4, 2, 2)


def test_a_batch_of_reads_is_one_request_and_a_unit_for_each_key(
    server: MemoryServer, client: Any
) -> None:
    transact(client, put("dedup", "a", new=True))
    server.count()
    keys = [{"pk": {"S": key}} for key in "abc"]
    asked = {"dedup": {"Keys": keys, "ConsistentRead": True}}
    answer = client.batch_get_item(RequestItems=asked)
    assert [item["pk"]["S"] for item in answer["Responses"]["dedup"]] == ["a"]
    assert answer["UnprocessedKeys"] == {}
    assert server.seen().counts == Counts(requests=1, read_units=3)


def test_conflicts_come_at_the_share_that_was_asked_for(server: MemoryServer, client: Any) -> None:
    server.faults(0, conflicts=0.2, seed=1)
    codes = [transact(client, put("dedup", str(n), new=True)) for n in range(200)]
    assert {tuple(code) for code in codes} == {(), ("TransactionConflict",)}
    assert server.seen().counts.conflicts == codes.count(["TransactionConflict"])
    assert 25 <= codes.count(["TransactionConflict"]) <= 55


def test_each_message_of_a_group_has_a_chance_of_its_own(server: MemoryServer, client: Any) -> None:
    server.faults(0, conflicts=0.5, seed=1)
    group = [put(table, str(n)) for n in range(10) for table in ("dedup", "orders")]
    codes = transact(client, *group)
    assert set(codes[1::2]) == {"None"}
    assert 2 <= codes[::2].count("TransactionConflict") <= 8


def test_conflicts_are_the_same_for_the_same_seed(server: MemoryServer, client: Any) -> None:
    seen = []
    for _ in range(2):
        server.reset()
        server.faults(0, conflicts=0.3, seed=7)
        seen.append([transact(client, put("dedup", str(n))) for n in range(20)])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("operation", ["scan", "query"])
def test_what_nobody_needs_is_refused(client: Any, operation: str) -> None:
    with pytest.raises(ClientError, match="the bench has no"):
        getattr(client, operation)(TableName="orders")


def test_a_transaction_of_anything_but_puts_is_refused(client: Any) -> None:
    delete = {"Delete": {"TableName": "orders", "Key": {"order_id": {"S": "1"}}}}
    with pytest.raises(ClientError, match="only Put"):
        client.transact_write_items(TransactItems=[delete])
