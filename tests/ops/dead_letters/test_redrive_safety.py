"""The verdict on redriving a dead letter, and its outcome when it is redriven."""

import json
from dataclasses import replace
from typing import Any

import pytest

from once.events.cloud_event import read_event
from once.events.fingerprint import fingerprint
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters._remedies import remedy
from once.ops.dead_letters.letter import dead_letter_queues
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dead_letters.redrive_safety import assess_letters
from once.ops.dead_letters.redrive_verdict import RedriveOutcome
from once.schema import RELAY, Limits, Reason
from tests.ops.letters import DAY, KEY, Shop, note

WINDOW = 28 * DAY

every_key_rule = pytest.mark.parametrize("event_type", ["noted", "named", "nameless", "stamped"])


def test_message_without_a_record_will_be_processed(shop: Shop) -> None:
    shop.fail("a")
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.PROCESSED
    assert "no record of it was found" in verdict.why
    assert "see to what the error names" in verdict.why
    assert shop.send_back() == []
    assert shop.counted() == {"a": 1}


@every_key_rule
def test_committed_message_is_a_duplicate(shop: Shop, event_type: str) -> None:
    shop.give_up(note("a", event_type), error=ValueError())
    shop.process(note("a", event_type))
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.DUPLICATE
    assert "will be acknowledged as a duplicate" in verdict.why
    assert shop.send_back() == []
    assert shop.counted() == {"a": 1}


@every_key_rule
def test_letter_without_a_key_hash_is_looked_up_under_every_candidate_key(
    shop: Shop, event_type: str
) -> None:
    shop.move(note("a", event_type))
    assert shop.verdict().outcome is RedriveOutcome.PROCESSED
    shop.process(note("a", event_type))
    assert shop.verdict().outcome is RedriveOutcome.DUPLICATE


def test_key_conflict_whose_record_is_gone_is_unsafe(shop: Shop) -> None:
    shop.process(note("a"))
    shop.give_up(note("a", data={"amount": 9}))
    shop.forget()
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.UNSAFE
    assert "that record is gone" in verdict.why


def test_old_event_without_a_record_is_unsafe(shop: Shop) -> None:
    shop.give_up({**note("a"), "time": "2020-01-01T00:00:00Z"}, error=ValueError())
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.UNSAFE
    assert "its producer made it at" in verdict.why


def test_unreadable_record_makes_only_its_own_letter_unsafe(shop: Shop) -> None:
    shop.fail("a", "b")
    shop.aws.put("dedup", {"pk": KEY, "state": "done"})
    found = {
        str(assessed.context.pk): assessed.verdict
        for assessed in assess_letters(shop.records, shop.letters())
    }
    assert [verdict.safe for key, verdict in sorted(found.items())] == [False, True]


@pytest.mark.parametrize("event_type", ["stamped", "nameless"])
def test_difference_in_a_volatile_field_may_be_a_duplicate(shop: Shop, event_type: str) -> None:
    shop.give_up(note("a", event_type, data={"sent": "late"}), error=ValueError())
    shop.process(note("a", event_type, data={"sent": "early"}))
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN
    assert "as key-conflict, unless its handler declares sent volatile" in verdict.why
    assert shop.send_back() == []
    assert shop.counted() == {"a": 1}


def test_added_field_may_be_volatile_until_the_consumer_reported_a_conflict(shop: Shop) -> None:
    shop.give_up(note("a", data={"amount": 9}), error=ValueError())
    shop.process(note("a"))
    assert "unless its handler declares amount volatile" in shop.verdict().why
    assert shop.send_back() == ["key-conflict"]
    assert "as key-conflict: other content" in shop.verdict().why


@pytest.mark.parametrize("event_type", ["noted", "named"])
def test_other_content_is_dead_lettered_again_as_a_conflict(shop: Shop, event_type: str) -> None:
    shop.give_up(note("a", event_type, data={"amount": 9}), error=ValueError())
    shop.process(note("a", event_type, data={"amount": 1}))
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN
    assert "as key-conflict: other content" in verdict.why
    assert "a new event, with an id of its own" in verdict.why
    assert shop.send_back() == ["key-conflict"]
    assert shop.counted() == {"a": 1}


UNREADABLE = "no consumer can read it ({reason}: "
REFUSED = "as {reason}, unless this was done: {remedy}"
RETURNING: list[tuple[str, Any, str]] = [
    (Reason.UNPARSEABLE, "{", UNREADABLE),
    (Reason.INVALID_EVENT, note() | {"specversion": "2"}, UNREADABLE),
    (Reason.NO_KEY, note() | {"id": None}, UNREADABLE),
    (Reason.UNKNOWN_TYPE, note() | {"type": "unheard"}, REFUSED),
    (Reason.INVALID_DATA, note(data={"amount": "many"}), REFUSED),
    (Reason.TOO_LARGE, note(data={"sent": "x" * 300_000}), REFUSED),
    (Reason.NO_KEY, note("", "named"), REFUSED),
]


@pytest.mark.parametrize(("reason", "message", "why"), RETURNING)
def test_rejected_message_is_dead_lettered_again_with_a_remedy(
    shop: Shop, reason: str, message: Any, why: str
) -> None:
    shop.give_up(message)
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN
    assert why.format(reason=reason, remedy=remedy(reason)) in verdict.why
    assert why == REFUSED or "redrive --edit" in verdict.why
    assert shop.send_back() == [reason]


def test_late_duplicate_with_data_that_the_model_rejects_is_a_duplicate(shop: Shop) -> None:
    late = note(data={"amount": "many"})
    shop.give_up(late)
    shop.process(note())
    [item] = shop.aws.items("dedup")
    event = read_event(json.dumps(late), max_bytes=Limits.MESSAGE_BYTES)
    shop.aws.put("dedup", item | {"fingerprint": fingerprint(event)})
    assert shop.verdict().outcome is RedriveOutcome.DUPLICATE
    assert shop.send_back() == []


@pytest.mark.parametrize(
    ("committed", "seconds", "why"),
    [
        pytest.param(True, WINDOW - 9 * DAY, None, id="record outlives the message"),
        pytest.param(True, WINDOW - 7 * DAY, "it would be done again", id="record expires first"),
        pytest.param(False, 29 * DAY, None, id="no record, younger than any record's end"),
        pytest.param(False, 31 * DAY, "a record may have expired", id="no record, older"),
    ],
)
def test_old_message_is_unsafe(
    shop: Shop, seconds: int, why: str | None, *, committed: bool
) -> None:
    shop.fail("a")
    if committed:
        shop.process(note("a"))
    verdict = shop.verdict(in_seconds=seconds)
    assert verdict.safe is (why is None)
    reasons = ("it would be done again", "a record may have expired")
    assert [one for one in reasons if one in verdict.why] == ([why] if why else [])


def test_letter_whose_key_cannot_be_computed_is_unsafe(shop: Shop) -> None:
    shop.fail("a")
    letter = shop.letter()
    strange = replace(letter, attributes=replace(letter.attributes, key_hash="0" * 64))
    [found] = assess_letters(shop.records, [strange])
    assert not found.verdict.safe
    assert f"once trace {'0' * 64}" in found.verdict.why


def test_letter_of_the_relay_has_no_queue_to_be_redriven_to(shop: Shop) -> None:
    shop.cloud.bury(RELAY, json.dumps(note()))
    with QueueWalk(shop.sqs, dead_letter_queues(Deployment.find(), RELAY), limit=1) as walk:
        [[letter]] = walk.pages()
    [found] = assess_letters(shop.records, [letter])
    assert not found.verdict.safe
    assert "`once outbox republish` publishes it again" in found.verdict.why


def test_every_reason_but_one_has_a_remedy() -> None:
    assert [reason for reason in Reason if not remedy(reason)] == [Reason.NOT_TRIED]
    assert remedy("reason of a later version") is None
