"""The world's two Regions replicate as DynamoDB's documentation says."""

import random
from itertools import pairwise
from typing import Any

import pytest

from proof.scenarios.regions import Account, Loss, Regions
from proof.world.calls import Call, ServiceError
from proof.world.faults import Plan, script
from proof.world.regions import Region


def two(tables: Any = "MREC") -> tuple[Region, Region]:
    loss = Loss(tables=tables, on_items=tables == "MRSC")
    first = Regions((loss, Account("a0")), Plan(script(())), 0)
    return first.world, first.standby.world


def do(region: Region, operation: str, **request: Any) -> Any:
    return region.do(Call("dynamodb", operation, request, "", ""))


def put(account: str, **values: str) -> dict[str, Any]:
    item = {"account": {"S": account}, **{name: {"N": value} for name, value in values.items()}}
    return {"Put": {"TableName": "accounts", "Item": item}}


def commit(region: Region, *entries: Any) -> None:
    do(region, "TransactWriteItems", TransactItems=[*entries], ClientRequestToken=str(entries))
    for each in (region, region.other):
        each.tasks.now += 1


def arrive(region: Region, account: str) -> None:
    for version in [each for each in region.tables.arriving if each.key == account]:
        region.tables.deliver(version)


def test_the_items_of_a_transaction_arrive_separately_and_in_any_order() -> None:
    first, second = two()
    commit(first, put("a", n="1"), put("b", n="1"))
    assert second.tables.items["accounts"] == {}
    arrive(second, "b")
    assert [*second.tables.items["accounts"]] == ["b"]


@pytest.mark.parametrize("seed", range(4))
def test_the_last_writer_wins_in_both_regions_whatever_arrives_first(seed: int) -> None:
    first, second = two()
    for region, value in [(first, "1"), (second, "2"), (first, "3"), (second, "4")]:
        commit(region, put("a", n=value))
    for region in (first, second):
        versions = [*region.tables.arriving]
        random.Random(seed).shuffle(versions)
        for version in versions:
            region.tables.deliver(version)
    assert [each.tables.items["accounts"]["a"]["n"] for each in (first, second)] == [{"N": "4"}] * 2
    history = [version.order for version in second.tables.history]
    assert all(earlier < later for earlier, later in pairwise(history))


def test_a_condition_is_evaluated_on_the_regions_own_version() -> None:
    first, second = two()
    new = put("a", n="1")
    new["Put"]["ConditionExpression"] = "attribute_not_exists(account)"
    commit(first, new)
    commit(second, new)
    arrive(second, "a")
    with pytest.raises(ServiceError, match="TransactionCanceled"):
        commit(second, new, put("b"))


def test_with_strong_consistency_there_is_one_version_and_no_transaction() -> None:
    first, second = two("MRSC")
    do(first, "PutItem", **put("a", n="1")["Put"])
    assert second.tables.items["accounts"]["a"]["n"] == {"N": "1"}
    with pytest.raises(ServiceError, match="ValidationException"):
        commit(second, put("b"))


def test_a_fenced_region_writes_nothing_and_reads() -> None:
    first, _ = two()
    first.fenced_at = first.tasks.now
    with pytest.raises(ServiceError, match="AccessDenied"):
        commit(first, put("a"))
    key = {"account": {"S": "a"}}
    assert do(first, "GetItem", TableName="accounts", Key=key) == {}
