"""Item records: found by their dedup keys, as those of the dedup table are."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from once.events.identity import Key
from once.names import Record
from once.ops.aws.deployment import Deployment
from once.ops.dedup_records import DedupRecordReader, ItemTable, read_record, record_lines
from tests.once.item_orders import Orders, event, running
from tests.once.support import calls, event_of
from tests.ops.aws.test_deployment import OUTPUTS

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
