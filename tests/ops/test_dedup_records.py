"""Reading dedup records in batches of keys, from the dedup table and from items."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from once.events.identity import Key
from once.names import Limits, Record
from once.ops.aws.clients import ATTEMPTS, client
from once.ops.aws.deployment import Deployment
from once.ops.dedup_records import DedupRecordReader, ItemTable, read_record, record_lines
from tests.once.item_orders import Orders, event, running
from tests.once.support import calls, event_of
from tests.ops.cloud import Cloud
from tests.ops.outboxes import commit_each
from tests.ops.support import OK, answer_with, requests_of, stderr_of
from tests.ops.test_deployment import OUTPUTS
from tests.ops.tracing import TABLE, Saga, moments, placed

GET = "dynamodb.BatchGetItem"


def test_keys_are_read_consistently_in_batches_of_a_hundred(cloud: Cloud) -> None:
    known = [f"orders#{number}" for number in range(105)]
    commit_each(cloud, *known)
    asked = requests_of(GET)
    assert len(DedupRecordReader(client("dynamodb"), TABLE).get([*known, *known])) == 105
    batches = [request["RequestItems"][TABLE] for request in asked]
    assert max(len(batch["Keys"]) for batch in batches) <= Limits.BATCH_GET_KEYS
    assert all(batch["ConsistentRead"] for batch in batches)
    keys = [key["pk"]["S"] for batch in batches for key in batch["Keys"]]
    assert len(keys) == len(set(keys))


def leave_unprocessed(times: int) -> list[Any]:
    """Let DynamoDB leave all keys unprocessed, so many times; return the requests."""
    asked: list[Any] = []

    def answer(params: Any) -> Any:
        asked.append(json.loads(params["body"])["RequestItems"])
        return (
            (OK, {"Responses": {}, "UnprocessedKeys": asked[-1]}) if len(asked) <= times else None
        )

    answer_with(GET, answer)
    return asked


def test_unprocessed_keys_are_requested_again(saga: Saga) -> None:
    saga.commit("orders", placed("o-1"))
    saga.commit("inventory", placed("o-1"))
    leave_unprocessed(1)
    assert len(moments(saga.pk("orders", placed("o-1")))) == 2


def test_error_for_a_table_without_capacity_names_a_remedy(saga: Saga) -> None:
    asked = leave_unprocessed(ATTEMPTS)
    said = stderr_of("trace", "orders#event#/shop#e")
    assert "no capacity to read records of physical-dedup: run the command again" in said
    assert len(asked) == ATTEMPTS


def test_key_above_the_size_limit_is_not_requested(saga: Saga) -> None:
    asked = requests_of(GET)
    longest = "orders#" + "x" * (Limits.PARTITION_KEY_BYTES - len("orders#"))
    for key in (longest, longest + "x"):
        stderr_of("trace", key)
        assert len(asked) == 1


TABLES = {"orders": ItemTable("orders", ("order_id",))}


def pk_of(event_type: str, order_id: str | int) -> str:
    found = event_of({"order_id": order_id}, type=event_type)
    return Key.field("order_id").of(found, fingerprint="", consumer="orders")


@pytest.fixture
def shop() -> Iterator[Orders]:
    with running() as found:
        found.run(event("placed", "a#1%"), event("captured", "a#1%"), event("placed", "b"))
        yield found


def test_records_are_found_on_their_items(shop: Orders) -> None:
    reader = DedupRecordReader(shop.aws.dynamodb, "dedup", TABLES)
    keys = [pk_of("placed", "a#1%"), pk_of("captured", "a#1%"), pk_of("placed", "b")]
    unknown = [pk_of("captured", "b"), pk_of("placed", 7), "orders#event#/s#e", "other#event#/s#e"]
    found = reader.get([*keys, *unknown])
    assert [item[Record.PK]["S"] for item in found] == keys
    types = [item[Record.EVENT_TYPE]["S"] for item in found]
    assert types == ["placed", "captured", "placed"]
    assert all(read_record(item).intent is None for item in found)
    [committed, remembered] = record_lines(found[0], datetime.now(UTC))
    assert committed.startswith("accepted, committed at")
    assert remembered.startswith("remembered until")


def test_the_other_attributes_of_the_item_are_not_read(shop: Orders) -> None:
    reader = DedupRecordReader(shop.aws.dynamodb, "dedup", TABLES)
    with calls(shop.aws.dynamodb) as made:
        assert len(reader.get([pk_of("placed", "b"), pk_of("captured", "b")])) == 1
    [(_, request)] = made
    names = request["RequestItems"]["orders"]["ExpressionAttributeNames"].values()
    assert {*names} == {"order_id", "once#orders#placed", "once#orders#captured"}


def test_a_number_is_not_the_text_of_an_items_key(shop: Orders) -> None:
    shop.run(event("placed", "int:7"))
    reader = DedupRecordReader(shop.aws.dynamodb, "dedup", TABLES)
    assert reader.get([pk_of("placed", 7)]) == []
    assert len(reader.get([pk_of("placed", "int:7")])) == 1


def test_the_tables_are_those_of_the_stacks_outputs(shop: Orders) -> None:
    taken = {"item_table": "shop_orders", "item_key": ["order_id"]}
    more = {
        "TableShopOrders": "physical-orders",
        "TakesRelayedMail2": json.dumps(json.loads(OUTPUTS["TakesRelayedMail2"]) | taken),
    }
    without, with_items = (Deployment.of("shop", each) for each in (OUTPUTS, OUTPUTS | more))
    assert DedupRecordReader.of(shop.aws.dynamodb, without).items == {}
    found = DedupRecordReader.of(shop.aws.dynamodb, with_items)
    assert list(found.items.values()) == [ItemTable("physical-orders", ("order_id",))]
