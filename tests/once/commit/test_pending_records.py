"""Pending records: the effect has begun, and only its owner may complete the record."""

from dataclasses import replace

import pytest

from once.commit.result import COMMITTED, CONTENDED, DUPLICATE, CommitOutcome, CommitResult
from once.effects.ledger import Intent
from once.errors import KeyConflict, RequestRefused
from once.names import Standing
from once.testing import inject, never_sent
from once.transaction import Transaction
from tests.once.support import Bench, amounts

NOW = 1_800_000_000
INTENT = Intent(
    effect="charge",
    provider_key="once-h-charge-1",
    request=b"{}",
    key_expires_at=None,
    owner="owner",
    lease_until=(NOW + 30) * 1000,
    standing=Standing.IN_FLIGHT,
)
PENDING = CommitResult(CommitOutcome.PENDING, intent=INTENT, since=NOW * 1000)


def opening(bench: Bench, *, owner: str = "another", fingerprint: str = "f") -> Transaction:
    tx = bench.transaction(fingerprint=fingerprint)
    tx.intent = replace(INTENT, owner=owner)
    return tx


def completing(bench: Bench, *, owner: str = "owner") -> Transaction:
    tx = bench.counting()
    tx.owned = replace(INTENT, owner=owner)
    return tx


@pytest.fixture
def begun(bench: Bench) -> Bench:
    """A bench with a pending record."""
    bench.aws.time = NOW
    assert bench.commit(opening(bench, owner="owner")) == [COMMITTED]
    return bench


@pytest.mark.parametrize("seconds", [0, NOW])
def test_another_delivery_finds_the_intent_however_late(begun: Bench, seconds: int) -> None:
    begun.aws.time = NOW + seconds
    again = opening(begun)
    assert begun.commit(again) == [PENDING]
    assert begun.committer.look_up([again]) == [PENDING]


def test_other_content_under_its_key_is_a_key_conflict(begun: Bench) -> None:
    [result] = begun.commit(opening(begun, fingerprint="other"))
    assert isinstance(result.cause, KeyConflict)


@pytest.mark.parametrize("owner", ["owner", "another"])
def test_its_owner_completes_it_once(begun: Bench, owner: str) -> None:
    assert begun.commit(completing(begun)) == [COMMITTED]
    [record] = begun.aws.items("dedup")
    assert (record["state"], record["provider_key"]) == ("done", "once-h-charge-1")
    assert "owner" not in record
    assert begun.commit(completing(begun, owner=owner)) == [DUPLICATE]
    assert amounts(begun.aws) == {"a": 1}


def test_an_overtaken_owner_finds_the_intent_and_changes_nothing(begun: Bench) -> None:
    assert begun.commit(completing(begun, owner="another")) == [PENDING]
    assert amounts(begun.aws) == {}


def test_a_completion_that_did_not_arrive_is_retried(begun: Bench) -> None:
    mine, other = completing(begun), completing(begun, owner="another")
    with inject(begun.client, "TransactWriteItems", never_sent(), never_sent()):
        assert begun.commit(mine) == [CONTENDED]
        assert begun.commit(other) == [PENDING]
    assert begun.commit(mine) == [COMMITTED]


def test_a_completion_of_a_deleted_record_is_refused(begun: Bench) -> None:
    begun.client.delete_item(TableName="dedup", Key={"pk": {"S": "notes#a"}})
    [result] = begun.commit(completing(begun))
    assert isinstance(result.cause, RequestRefused)
    assert str(result.cause) == "the effect's record is gone: it will be begun anew"
    assert amounts(begun.aws) == {}
