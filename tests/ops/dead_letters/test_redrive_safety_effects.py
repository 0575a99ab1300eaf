"""The verdict on redriving a dead letter whose effect may have been done."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from once.effects.declaration import Policy
from once.errors import NotDone
from once.intake.original_message import OriginalMessage
from once.names import CLOCK_MARGIN_SECONDS
from once.ops.dead_letters.assessment import RedriveOutcome, assess_letters
from tests.ops.cloud import Cloud
from tests.ops.letters import Shop
from tests.ops.notes import HOUR, KEY_LIFETIME, note

LAST_TAKEOVER = KEY_LIFETIME - CLOCK_MARGIN_SECONDS
"""Seconds after which a consumer with a slow clock may not rely on the key."""

Failing = Callable[..., Shop]


@pytest.fixture
def failing(cloud: Cloud) -> Iterator[Failing]:
    """Start a consumer whose effect fails three times, and let it dead-letter a message."""
    with ExitStack() as stack:

        def start(policy: Policy, error: Exception | None = None) -> Shop:
            shop = stack.enter_context(Shop(cloud, policy))
            shop.outside.answers = [error or TimeoutError()] * 3
            shop.dead_letter(note(data={"amount": 1}))
            return shop

        yield start


def test_effect_that_was_certainly_not_done_continues(failing: Failing) -> None:
    shop = failing(Policy.PROVIDER_KEY, NotDone())
    verdict = shop.verdict(in_seconds=KEY_LIFETIME + HOUR)
    assert verdict.outcome is RedriveOutcome.PROCESSED
    assert "has certainly not been done" in verdict.why
    assert shop.send_back() == []
    assert shop.counted() == {"a": 1}


def test_unknown_effect_continues_under_its_key_while_the_provider_knows_it(
    failing: Failing,
) -> None:
    shop = failing(Policy.PROVIDER_KEY)
    [key] = set(shop.outside.calls)
    verdict = shop.verdict(in_seconds=KEY_LIFETIME - HOUR)
    assert verdict.outcome is RedriveOutcome.PROCESSED
    assert f"goes on under the same key {key}" in verdict.why
    assert shop.send_back() == []
    assert set(shop.outside.calls) == {key}
    assert shop.counted() == {"a": 1}


def test_unknown_effect_is_unsafe_once_the_provider_may_have_forgotten_its_key(
    failing: Failing,
) -> None:
    shop = failing(Policy.PROVIDER_KEY)
    [key] = set(shop.outside.calls)
    verdict = shop.verdict(in_seconds=LAST_TAKEOVER + 1)
    assert not verdict.safe
    assert f"may forget the key {key} from" in verdict.why
    assert "look it up there" in verdict.why
    shop.aws.time = time.time() + LAST_TAKEOVER + 1
    assert shop.send_back() == ["effect-unknown"]
    assert set(shop.outside.calls) == {key}


@pytest.mark.parametrize(
    ("policy", "reasons"),
    [(Policy.AT_MOST_ONCE, ["effect-unknown"]), (Policy.AT_LEAST_ONCE, [])],
)
def test_unknown_effect_without_a_key_is_unsafe(
    failing: Failing, policy: Policy, reasons: list[str]
) -> None:
    shop = failing(policy)
    verdict = shop.verdict()
    assert not verdict.safe
    assert "comes back as effect-unknown if it is done at most once" in verdict.why
    assert shop.send_back() == reasons


def test_unknown_effect_whose_record_is_gone_is_unsafe(failing: Failing) -> None:
    shop = failing(Policy.AT_MOST_ONCE)
    shop.forget()
    verdict = shop.verdict()
    assert not verdict.safe
    assert "its record is gone" in verdict.why


def test_conflict_with_a_pending_effect_is_dead_lettered_again(failing: Failing) -> None:
    shop = failing(Policy.AT_MOST_ONCE)
    shop.dead_letter(note(data={"amount": 9}))
    unknown, conflict = (
        assessed.verdict for assessed in assess_letters(shop.records, shop.letters())
    )
    assert unknown.outcome is RedriveOutcome.UNSAFE
    assert conflict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN
    assert "as key-conflict: other content" in conflict.why


def test_unknown_effect_takes_precedence_over_a_difference_that_may_be_volatile(
    failing: Failing,
) -> None:
    shop = failing(Policy.AT_MOST_ONCE)
    shop.set_rules(replace(shop.box.consumer, volatile={"noted": None}))
    other = OriginalMessage(json.dumps(note(data={"amount": 9})), {})
    [found] = assess_letters(shop.records, [replace(shop.letter(), original=other)])
    assert found.verdict.outcome is RedriveOutcome.UNSAFE
