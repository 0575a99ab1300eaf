"""Commits of today's code on dedup records and business items that any version wrote.

DynamoDB evaluates the conditions of a commit on the stored attributes, without the readers.
"""

import logging
from typing import Any, cast

import pytest
from boto3.dynamodb.types import TypeDeserializer

from once.commit.dedup_record import StoredRecord
from once.commit.result import COMMITTED, DUPLICATE, CommitOutcome
from once.effects.declaration import Effect, Policy
from once.effects.ledger import EffectLedger
from once.names import CLOCK_MARGIN_SECONDS
from once.transaction import Action, Identity, ItemVersion, Transaction
from tests.golden.versions import Item, cases, reader
from tests.in_memory import Start
from tests.once.support import (
    COUNTERS,
    TABLES,
    Bench,
    Note,
    amounts,
    consumer_of,
    event_of,
    failures,
    note,
)

RECORDS = cases("records")
DONE = [case for case in RECORDS if case.values[1]["read"]["intent"] is None]
PENDING = [case for case in RECORDS if case.values[1]["read"]["intent"] is not None]
OVER = 1_800_000_031
"""After the end of the pending records' lease, and before that of their provider's keys."""


def store(bench: Bench, case: Item, *, now: float = OVER) -> None:
    bench.client.put_item(TableName="dedup", Item=case["item"])
    bench.aws.time = now


def again(case: Item, *, fingerprint: str = "f", **more: Any) -> Transaction:
    """Return the transaction of another delivery of the same event."""
    identity = Identity(case["item"]["pk"]["S"], fingerprint)
    return Transaction(
        event_of(), identity, tables={}, publishes=(), read=lambda table, key: None, **more
    )


def effect_of(case: Item) -> Effect:
    kept = case["read"]["intent"]
    policy = Policy.AT_LEAST_ONCE if kept["key_expires_at"] is None else Policy.PROVIDER_KEY
    return Effect(kept["effect"], cast("Any", None), policy, 3600, cast("Any", None))


@pytest.mark.parametrize(("version", "case"), RECORDS)
def test_an_event_of_any_version_is_known_and_its_key_conflicts_with_other_content(
    bench: Bench, version: int, case: Item
) -> None:
    store(bench, case)
    [again_result] = bench.commit(again(case))
    [other_result] = bench.commit(again(case, fingerprint="other"))
    known = CommitOutcome.PENDING if case["read"]["intent"] else CommitOutcome.DUPLICATE
    assert (again_result.outcome, other_result.outcome) == (known, CommitOutcome.FAILED)


@pytest.mark.parametrize(("version", "case"), DONE)
def test_a_record_of_any_version_is_replaced_after_its_expiry_and_not_before(
    bench: Bench, version: int, case: Item
) -> None:
    end = case["read"]["expires_at"] + CLOCK_MARGIN_SECONDS
    store(bench, case, now=end)
    assert bench.commit(again(case)) == [DUPLICATE]
    bench.aws.time = end + 1
    assert bench.commit(again(case)) == [COMMITTED]


@pytest.mark.parametrize(("version", "case"), PENDING)
def test_an_effect_that_any_version_began_is_finished_under_its_key(
    bench: Bench, version: int, case: Item
) -> None:
    store(bench, case)
    ledger = EffectLedger(bench.client, "dedup", lambda: OVER, cast("Any", logging.getLogger()), 0)
    found = StoredRecord.read(case["item"]).intent
    assert found is not None
    mine = ledger.take_over(effect_of(case), case["item"]["pk"]["S"], found, 30)
    assert mine.provider_key == case["read"]["intent"]["provider_key"]
    assert mine.request.decode() == case["read"]["intent"]["request"]
    assert bench.commit(again(case, owned=mine)) == [COMMITTED]
    assert bench.commit(again(case)) == [DUPLICATE]


def plain(item: Item) -> dict[str, Any]:
    deserialize = TypeDeserializer().deserialize
    return {name: deserialize(value) for name, value in item.items()}


@pytest.mark.parametrize(("version", "case"), cases("items"))
def test_the_commit_id_of_an_item_is_read_by_today_and_by_every_version(
    version: int, case: Item
) -> None:
    stored = plain(case["item"])
    assert ItemVersion.of(stored).commit == case["commit"]
    item = {name: stored[name] for name in ("name", "amount")}
    put = Action(kind="Put", table=TABLES["counters"], key={"name": "a"}, item=item)
    written: Any = put.render(case["commit"])["Put"]["Item"]
    assert written == case["item"]
    assert reader(version).commit_of(written) == case["commit"]


@pytest.mark.parametrize(("version", "case"), cases("items"))
def test_a_write_of_every_version_makes_a_read_of_today_stale(
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
