"""Whether a dead letter may be sent back whose effect may have been done outside."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from once.errors import NotDone
from once.handlers.effect_declaration import Policy
from once.intake.original_message import OriginalMessage
from once.ops.dead_letters.redrive_safety import assess_letters
from once.ops.dead_letters.redrive_verdict import RedriveOutcome
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.schema import CLOCK_MARGIN_SECONDS
from tests.ops.letters import HOUR, KEY_LIFETIME, Shop, note
from tests.ops.support import Cloud

LAST_TAKEOVER = KEY_LIFETIME - CLOCK_MARGIN_SECONDS
"""After so many seconds a consumer's clock may be too slow to rely on the key."""


@pytest.fixture
def paying(cloud: Cloud) -> Iterator[Callable[[Policy], Shop]]:
    opened: list[Shop] = []

    def open_shop(policy: Policy) -> Shop:
        opened.append(Shop(cloud, policy).__enter__())
        return opened[0]

    yield open_shop
    for shop in opened:
        shop.__exit__()


def test_an_effect_that_is_certainly_not_done_goes_on(paying: Callable[[Policy], Shop]) -> None:
    shop = paying(Policy.PROVIDER_KEY)
    shop.outside.answers = [NotDone()] * 3
    shop.give_up(note())
    verdict = shop.verdict(in_seconds=KEY_LIFETIME + HOUR)
    assert verdict.outcome is RedriveOutcome.PROCESSED
    assert "has certainly not been done" in verdict.why
    assert shop.send_back() == []
    assert shop.counted() == {"a": 1}


def test_an_effect_that_may_be_done_goes_on_under_its_key_while_the_provider_knows_it(
    paying: Callable[[Policy], Shop],
) -> None:
    shop = paying(Policy.PROVIDER_KEY)
    shop.outside.answers = [TimeoutError()] * 3
    shop.give_up(note())
    [key] = set(shop.outside.calls)
    verdict = shop.verdict(in_seconds=KEY_LIFETIME - HOUR)
    assert verdict.outcome is RedriveOutcome.PROCESSED
    assert f"goes on under the same key {key}" in verdict.why
    assert shop.send_back() == []
    assert set(shop.outside.calls) == {key}
    assert shop.counted() == {"a": 1}


def test_an_effect_whose_key_the_provider_may_have_forgotten_is_for_a_person(
    paying: Callable[[Policy], Shop],
) -> None:
    shop = paying(Policy.PROVIDER_KEY)
    shop.outside.answers = [TimeoutError()] * 3
    shop.give_up(note())
    [key] = set(shop.outside.calls)
    verdict = shop.verdict(in_seconds=LAST_TAKEOVER + 1)
    assert not verdict.safe
    assert f"may forget the key {key} from" in verdict.why
    assert "look it up there" in verdict.why
    shop.aws.time = time.time() + LAST_TAKEOVER + 1
    assert shop.send_back() == ["effect-unknown"]
    assert set(shop.outside.calls) == {key}


@pytest.mark.parametrize("policy", [Policy.AT_MOST_ONCE, Policy.AT_LEAST_ONCE])
def test_an_effect_without_a_key_that_may_be_done_is_for_a_person(
    paying: Callable[[Policy], Shop], policy: Policy
) -> None:
    shop = paying(policy)
    shop.outside.answers = [TimeoutError()] * 3
    shop.give_up(note())
    verdict = shop.verdict()
    assert not verdict.safe
    assert "comes back as effect-unknown if it is done at most once" in verdict.why
    assert shop.send_back() == (["effect-unknown"] if policy is Policy.AT_MOST_ONCE else [])


def test_an_unknown_effect_whose_record_is_gone_is_for_a_person(
    paying: Callable[[Policy], Shop],
) -> None:
    shop = paying(Policy.AT_MOST_ONCE)
    shop.outside.answers = [TimeoutError()]
    shop.give_up(note())
    [item] = shop.aws.items("dedup")
    shop.aws.dynamodb.delete_item(TableName="dedup", Key={"pk": {"S": item["pk"]}})
    verdict = shop.verdict()
    assert not verdict.safe
    assert "its record is gone" in verdict.why


def test_a_conflict_with_a_pending_effect_comes_back(paying: Callable[[Policy], Shop]) -> None:
    shop = paying(Policy.AT_MOST_ONCE)
    shop.outside.answers = [TimeoutError()]
    shop.send(note(data={"amount": 1}))
    shop.work_off()
    shop.give_up(note(data={"amount": 9}))
    unknown, conflict = assess_letters(
        DedupRecordReader(shop.aws.dynamodb, "dedup"), shop.letters()
    )
    assert unknown.verdict.outcome is RedriveOutcome.UNSAFE
    assert conflict.verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN
    assert "as key-conflict: other content" in conflict.verdict.why


def test_an_open_effect_is_not_risked_where_content_only_seems_to_differ(
    paying: Callable[[Policy], Shop],
) -> None:
    shop = paying(Policy.AT_MOST_ONCE)
    shop.outside.answers = [TimeoutError()]
    shop.give_up(note(data={"amount": 1}))
    letter = shop.letter()
    other = replace(letter, original=OriginalMessage(json.dumps(note(data={"amount": 9})), {}))
    [found] = assess_letters(DedupRecordReader(shop.aws.dynamodb, "dedup"), [other])
    assert found.verdict.outcome is RedriveOutcome.UNSAFE
