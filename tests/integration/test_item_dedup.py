"""Item dedup on the embedded AWS: conditions on attributes of a map, plain and in transactions."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from once.settings import Dedup, TableSettings
from once.testing import FakeContext, answer_lost, inject
from tests.integration.probe import Bench, record
from tests.once.item_orders import event, orders


class ItemOrders:
    """The consumer of the unit tests, with its table in the embedded AWS."""

    def __init__(self, bench: Bench, group_size: int) -> None:
        self._bench = bench
        self.table = f"{bench.counters}-orders"
        bench._create(self.table, "order_id")
        settings = replace(
            bench.settings,
            consumer="orders",
            event_types=("placed", "captured"),
            tables={"orders": TableSettings(self.table, ("order_id",))},
            group_size=group_size,
            dedup=Dedup.ITEM,
        )
        self.runtime = replace(bench.runtime, settings=settings)

    def deliver(self, *events: Any, receive_count: int = 1) -> list[Any]:
        records = [record(each, receive_count=receive_count) for each in events]
        answer = orders().bound_to(self.runtime)({"Records": records}, FakeContext(60_000))
        return list(answer["batchItemFailures"])

    def item(self, order_id: str) -> dict[str, Any]:
        key = {"order_id": {"S": order_id}}
        answer = self._bench.dynamodb.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        return dict(answer["Item"])


@pytest.fixture(params=[1, 10], ids=["alone", "grouped"])
def shop(bench: Bench, request: pytest.FixtureRequest) -> ItemOrders:
    return ItemOrders(bench, request.param)


def test_each_event_changes_its_item_once(shop: ItemOrders, bench: Bench) -> None:
    placed = [event("placed", f"o-{n}") for n in range(3)]
    captured = [event("captured", f"o-{n}") for n in range(3)]
    operation = "PutItem" if shop.runtime.settings.group_size == 1 else "TransactWriteItems"
    with inject(shop.runtime.dynamodb, operation, answer_lost()) as left:
        assert shop.deliver(*placed) == []
    assert left == []
    assert shop.deliver(*captured) == []
    before = [shop.item(f"o-{n}") for n in range(3)]
    for receive_count in (1, 2):
        assert shop.deliver(*placed, *captured, receive_count=receive_count) == []
    assert [shop.item(f"o-{n}") for n in range(3)] == before
    assert [item["captured"] for item in before] == [{"N": "5"}] * 3
    assert shop.deliver(event("placed", "o-0", price=9)) == []
    assert bench.reasons() == ["key-conflict"]


def test_deliveries_in_parallel_commit_once(shop: ItemOrders) -> None:
    shop.deliver(event("placed", "o"))

    def work(_: int) -> None:
        while shop.deliver(event("captured", "o")):
            pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert shop.item("o")["captured"] == {"N": "5"}
