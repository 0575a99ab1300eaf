"""A pending record: its effect has begun, and only the effect's owner may turn it done."""

from dataclasses import replace

import pytest

from once.commit.result import COMMITTED, CONTENDED, DUPLICATE, pending
from once.errors import CommitRefused, KeyConflict
from once.handlers.intent import Intent
from once.handlers.transaction import Transaction
from once.schema import Standing
from once.testing import inject, never_sent
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
PENDING = pending(INTENT, NOW * 1000)


def opening(bench: Bench, *, owner: str = "owner", fingerprint: str = "f") -> Transaction:
    tx = bench.transaction(fingerprint=fingerprint)
    tx.intent = replace(INTENT, owner=owner)
    return tx


def completing(bench: Bench, *, owner: str = "owner") -> Transaction:
    tx = bench.counting()
    tx.owned = replace(INTENT, owner=owner)
    return tx


@pytest.fixture
def begun(bench: Bench) -> Bench:
    """A bench on which an effect has begun."""
    bench.aws.time = NOW
    assert bench.commit(opening(bench)) == [COMMITTED]
    return bench


def test_another_delivery_is_told_of_the_intent_and_of_when_it_began(begun: Bench) -> None:
    again = opening(begun, owner="another")
    assert begun.commit(again) == [PENDING]
    assert begun.committer.look_up([again]) == [PENDING]


def test_it_is_remembered_for_good(begun: Bench) -> None:
    begun.aws.time = 2 * NOW
    again = opening(begun, owner="another")
    assert begun.commit(again) == [PENDING]
    assert begun.committer.look_up([again]) == [PENDING]


def test_other_content_under_its_key_is_a_conflict(begun: Bench) -> None:
    [verdict] = begun.commit(opening(begun, fingerprint="other"))
    assert isinstance(verdict.cause, KeyConflict)


def test_its_owner_turns_it_done_and_leaves_where_to_look_at_the_provider(begun: Bench) -> None:
    assert begun.commit(completing(begun)) == [COMMITTED]
    assert amounts(begun.aws) == {"a": 1}
    [record] = begun.aws.items("dedup")
    assert (record["state"], record["provider_key"]) == ("done", "once-h-charge-1")
    assert "owner" not in record


@pytest.mark.parametrize("owner", ["owner", "another"])
def test_what_is_done_is_done_by_nobody_again(begun: Bench, owner: str) -> None:
    begun.commit(completing(begun))
    assert begun.commit(completing(begun, owner=owner)) == [DUPLICATE]
    assert amounts(begun.aws) == {"a": 1}


def test_whoever_was_overtaken_is_told_of_the_intent_and_changes_nothing(begun: Bench) -> None:
    assert begun.commit(completing(begun, owner="another")) == [PENDING]
    assert amounts(begun.aws) == {}


def test_a_completion_that_did_not_arrive_goes_again(begun: Bench) -> None:
    mine, anothers = completing(begun), completing(begun, owner="another")
    with inject(begun.client, "TransactWriteItems", never_sent(), never_sent()):
        assert begun.commit(mine) == [CONTENDED]
        assert begun.commit(anothers) == [PENDING]
    assert begun.commit(mine) == [COMMITTED]


def test_the_completion_of_a_record_that_was_deleted_is_no_completion(begun: Bench) -> None:
    begun.client.delete_item(TableName="dedup", Key={"pk": {"S": "notes#a"}})
    [verdict] = begun.commit(completing(begun))
    assert isinstance(verdict.cause, CommitRefused)
    assert str(verdict.cause) == "the effect's record is gone: it will be begun anew"
    assert amounts(begun.aws) == {}
