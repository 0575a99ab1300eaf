"""The mark of a commit on business items, which nothing ever cleans up: every version knows it.

A decision that was read under one version's mark must not commit past another version's write.
"""

from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer

from once.handlers.actions import Action, ItemVersion
from once.handlers.transaction import Transaction
from tests.golden.versions import Item, cases, reader
from tests.in_memory import Start
from tests.once.support import (
    COUNTERS,
    TABLES,
    Note,
    amounts,
    consumer_of,
    failures,
    note,
)

_PLAIN = TypeDeserializer()


def plain(item: Item) -> dict[str, Any]:
    return {name: _PLAIN.deserialize(value) for name, value in item.items()}


@pytest.mark.parametrize(("version", "case"), cases("items"))
def test_the_mark_of_every_version_is_seen_by_a_read_of_today(version: int, case: Item) -> None:
    assert ItemVersion.of(plain(case["item"])).commit == case["commit"]


@pytest.mark.parametrize(("version", "case"), cases("items"))
def test_the_mark_of_today_is_seen_by_every_version(version: int, case: Item) -> None:
    item = {
        name: value for name, value in plain(case["item"]).items() if name in ("name", "amount")
    }
    put = Action(kind="Put", table=TABLES["counters"], key={"name": "a"}, item=item)
    written: Any = put.render(case["commit"])["Put"]["Item"]
    assert written == case["item"]
    assert reader(version).commit_of(written) == case["commit"]


@pytest.mark.parametrize(("version", "case"), cases("items"))
def test_a_write_of_every_version_spoils_a_decision_of_today(
    start: Start, version: int, case: Item
) -> None:
    tries: list[Any] = []

    def double(event: Note, tx: Transaction) -> None:
        amount = (tx.get(COUNTERS, {"name": "a"}) or {})["amount"]
        tries.append(amount)
        if len(tries) == 1:  # another function's commit, just after the read
            other = case["item"] | {"amount": {"N": "5"}, case["mark"]: {"S": "another"}}
            aws.dynamodb.put_item(TableName="counters", Item=other)
        tx.update(COUNTERS, {"name": "a"}, "SET amount = :a", {":a": amount * 2})

    aws = start(consumer_of(double))
    aws.dynamodb.put_item(TableName="counters", Item=case["item"])
    assert failures(aws.deliver(note())) == []
    assert tries == [1, 5]
    assert amounts(aws) == {"a": 10}
