"""A record of any version that stands in the table, met by what today's code sends.

The conditions of a commit name attributes too, and DynamoDB evaluates them: no reader helps there.
"""

import logging
from typing import Any, cast

import pytest

from once.commit.dedup_record import StoredRecord
from once.commit.result import COMMITTED, DUPLICATE, CommitOutcome
from once.effects.ledger import EffectLedger
from once.handlers.effect_declaration import Effect, Policy
from once.handlers.transaction import Identity, Transaction
from once.schema import CLOCK_MARGIN_SECONDS
from tests.golden.versions import Item, cases
from tests.once.support import Bench, event_of

RECORDS = cases("records")
DONE = [case for case in RECORDS if case.values[1]["read"]["intent"] is None]
PENDING = [case for case in RECORDS if case.values[1]["read"]["intent"] is not None]
OVER = 1_800_000_031
"""When the lease of a pending record here has ended, and its provider's key is still remembered."""


def stand(bench: Bench, case: Item, *, now: float = OVER) -> None:
    """Let the record of a case stand in the table."""
    bench.client.put_item(TableName="dedup", Item=case["item"])
    bench.aws.time = now


def again(case: Item, *, fingerprint: str = "f", **more: Any) -> Transaction:
    """The transaction of another delivery of the same event."""
    identity = Identity(case["item"]["pk"]["S"], fingerprint)
    return Transaction(
        event_of(), identity, tables={}, publishes=(), read=lambda table, key: None, **more
    )


def effect_of(case: Item) -> Effect:
    kept = case["read"]["intent"]
    policy = Policy.AT_LEAST_ONCE if kept["key_expires_at"] is None else Policy.PROVIDER_KEY
    return Effect(kept["effect"], cast("Any", None), policy, 3600, cast("Any", None))


@pytest.mark.parametrize(("version", "case"), RECORDS)
def test_an_event_of_any_version_is_not_committed_again(
    bench: Bench, version: int, case: Item
) -> None:
    stand(bench, case)
    [verdict] = bench.commit(again(case))
    assert verdict.outcome is (
        CommitOutcome.PENDING if case["read"]["intent"] else CommitOutcome.DUPLICATE
    )


@pytest.mark.parametrize(("version", "case"), RECORDS)
def test_other_content_under_a_key_of_any_version_is_a_conflict(
    bench: Bench, version: int, case: Item
) -> None:
    stand(bench, case)
    [verdict] = bench.commit(again(case, fingerprint="other"))
    assert verdict.outcome is CommitOutcome.FAILED


@pytest.mark.parametrize(("version", "case"), DONE)
def test_a_record_of_any_version_is_forgotten_when_it_said_and_not_before(
    bench: Bench, version: int, case: Item
) -> None:
    end = case["read"]["expires_at"] + CLOCK_MARGIN_SECONDS
    stand(bench, case, now=end)
    assert bench.commit(again(case)) == [DUPLICATE]
    bench.aws.time = end + 1
    assert bench.commit(again(case)) == [COMMITTED]


@pytest.mark.parametrize(("version", "case"), PENDING)
def test_an_effect_that_any_version_began_is_finished_under_its_key(
    bench: Bench, version: int, case: Item
) -> None:
    stand(bench, case)
    ledger = EffectLedger(bench.client, "dedup", lambda: OVER, cast("Any", logging.getLogger()), 0)
    found = StoredRecord.read(case["item"]).intent
    assert found is not None
    mine = ledger.take_over(effect_of(case), case["item"]["pk"]["S"], found, 30)
    assert mine.provider_key == case["read"]["intent"]["provider_key"]
    assert mine.request.decode() == case["read"]["intent"]["request"]
    assert bench.commit(again(case, owned=mine)) == [COMMITTED]
    assert bench.commit(again(case)) == [DUPLICATE]
