"""The bench's server answers as DynamoDB does, and counts its units."""

import pytest
from botocore.exceptions import ClientError

from benchmarks.dynamodb import MODEL, Counts, seconds
from tests.benchmarks.bench import MemoryServer, put

CONFLICT = "TransactionConflict"


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


def test_the_model_delays_a_transaction_by_its_items_and_a_put_by_its_median() -> None:
    assert seconds(MODEL, "TransactWriteItems", 10) == pytest.approx(0.027)
    assert seconds(MODEL, "PutItem", 0) == pytest.approx(0.0076)
    assert seconds(5, "PutItem", 0) == 0.005


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
    assert 4 <= found.count([CONFLICT]) <= 16
    assert found == codes(seed=1) != codes(seed=2)
