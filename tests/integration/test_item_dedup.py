"""Item dedup on the embedded AWS: conditions on attributes of a map, plain and in transactions."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from once.settings import Dedup, TableSettings
from once.testing import FakeContext
from tests.integration.probe import Bench, record
from tests.once.item_orders import event, orders


@pytest.mark.parametrize("group_size", [1, 10], ids=["alone", "grouped"])
def test_deliveries_in_parallel_commit_once(bench: Bench, group_size: int) -> None:
    table = f"{bench.counters}-orders"
    bench._create(table, "order_id")
    settings = replace(
        bench.settings,
        consumer="orders",
        event_types=("placed", "captured"),
        tables={"orders": TableSettings(table, ("order_id",))},
        group_size=group_size,
        dedup=Dedup.ITEM,
    )
    runtime = replace(bench.runtime, settings=settings)

    def deliver(each: Any) -> None:
        handle, batch = orders().bound_to(runtime), {"Records": [record(each, receive_count=1)]}
        while handle(batch, FakeContext(60_000))["batchItemFailures"]:
            pass

    deliver(event("placed", "o"))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(deliver, [event("captured", "o")] * 4))
    [item] = bench.dynamodb.scan(TableName=table, ConsistentRead=True)["Items"]
    assert item["captured"] == {"N": "5"}
