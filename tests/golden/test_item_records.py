"""Dedup records on items, as every version wrote them: today's code reads them and knows the event.

Such a record lives as long as its item, so that code of any later version finds it.
"""

import json
from dataclasses import asdict, replace
from typing import Any
from unittest.mock import Mock

import pytest

from once.commit.dedup_record import StoredRecord
from once.commit.item_dedup import ItemCommitter, item_record, item_record_name
from once.names import SCHEMA_VERSION
from once.settings import Dedup, TableSettings
from once.transaction import Identity, Table, Transaction
from tests.golden.test_records import CAUSED, EVENT, SETTINGS, THEN
from tests.golden.versions import VERSIONS, Item, cases, golden
from tests.once.item_orders import event, running
from tests.once.support import SoldOut, reasons

ON_ITEMS = replace(
    SETTINGS, tables={"orders": TableSettings("orders", ("order_id",))}, dedup=Dedup.ITEM
)
MADE: dict[str, dict[str, Any]] = {
    "accepted": {},
    "of an event of a consumer": {"event": CAUSED},
    "refused": {"refusal": SoldOut("x")},
}

STORED = [case for each in VERSIONS for case in golden(each, "item_records").values()]


def written(event: Any = EVENT, refusal: SoldOut | None = None) -> Item:
    """The item that is written today."""
    identity = Identity("orders#field#order.placed#order_id#str:o-1", "f", ("o-1",))
    tx = Transaction(
        event, identity, tables=ON_ITEMS.tables, publishes=(), read=lambda table, key: None
    )
    if refusal is not None:
        tx = tx.refused(refusal, keep_reads=False)
    tx.commit_id = "c"
    tx.put(Table("orders"), {"order_id": "o-1", "total": 5})
    [entry] = ItemCommitter(Mock(), ON_ITEMS, Mock()).request(tx, THEN).entries
    item: Item = json.loads(bytes(entry))["Put"]["Item"]
    return item


def test_every_shape_of_the_current_version_is_kept() -> None:
    assert set(golden(SCHEMA_VERSION, "item_records")) == set(MADE)


@pytest.mark.parametrize("name", MADE)
def test_an_item_has_the_shape_of_its_schema_version(name: str) -> None:
    assert written(**MADE[name]) == golden(SCHEMA_VERSION, "item_records")[name]["item"]


@pytest.mark.parametrize(("version", "case"), cases("item_records"))
def test_todays_code_reads_the_records_of_every_version(version: int, case: Item) -> None:
    found = item_record(case["item"], item_record_name("orders", "order.placed"))
    assert found is not None
    assert found["schema"] == {"N": str(version)}
    assert asdict(StoredRecord.read(found)) == case["read"]


@pytest.mark.parametrize("case", STORED)
def test_an_event_of_any_version_is_known(case: Item) -> None:
    """Its fingerprint is another one here, so that it is a key conflict until it is forgotten."""
    # The consumer of the tests has another type; only the attribute's name differs.
    name, item = item_record_name("orders", "order.placed"), dict(case["item"])
    item[item_record_name("orders", "captured")] = item.pop(name)
    with running() as shop:
        shop.aws.dynamodb.put_item(TableName="orders", Item=item)
        shop.aws.time = case["read"]["expires_at"] + 600
        shop.run(event("captured", "o-1"))
        assert reasons(shop.aws) == ["key-conflict"]
        shop.aws.time += 1
        shop.run(event("captured", "o-1"))
        assert shop.attributes("o-1")[name.replace("order.placed", "captured")]["M"]["commit"] != {
            "S": "c"
        }
