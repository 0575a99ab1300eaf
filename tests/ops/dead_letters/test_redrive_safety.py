"""Whether a dead letter may be sent back: the verdict, and whether it comes true."""

import json
from dataclasses import replace
from typing import Any

import pytest

from once.events.cloud_event import CloudEvent, read_event
from once.events.fingerprint import fingerprint
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters._remedies import remedy
from once.ops.dead_letters.letter import dead_letter_queues
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dead_letters.redrive_safety import assess_letters
from once.ops.dead_letters.redrive_verdict import RedriveOutcome
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.schema import RELAY, Limits, Reason
from tests.ops.letters import DAY, Shop, note

WINDOW = 28 * DAY


def test_what_has_no_record_is_worked_on(shop: Shop) -> None:
    shop.give_up(note("a"), error=ValueError())
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.PROCESSED
    assert "no record of it was found" in verdict.why
    assert "see to what the error names" in verdict.why
    assert shop.send_back() == []
    assert shop.counted() == {"a": 1}


@pytest.mark.parametrize("event_type", ["noted", "named", "nameless", "stamped"])
def test_what_was_committed_is_a_duplicate_under_every_kind_of_key(
    shop: Shop, event_type: str
) -> None:
    shop.give_up(note("a", event_type), error=ValueError())
    shop.send(note("a", event_type))
    shop.work_off()
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.DUPLICATE
    assert "will be acknowledged as a duplicate" in verdict.why
    assert shop.send_back() == []
    assert shop.counted() == {"a": 1}


@pytest.mark.parametrize("event_type", ["noted", "named", "stamped", "nameless"])
def test_a_letter_that_names_no_key_is_looked_up_under_every_key_it_may_have(
    shop: Shop, event_type: str
) -> None:
    shop.move(note("a", event_type))
    assert shop.verdict().outcome is RedriveOutcome.PROCESSED
    shop.send(note("a", event_type))
    shop.work_off()
    assert shop.verdict().outcome is RedriveOutcome.DUPLICATE


def test_a_conflict_whose_other_side_is_forgotten_is_not_safe(shop: Shop) -> None:
    shop.send(note("a"))
    shop.work_off()
    shop.give_up(note("a", data={"amount": 9}))
    shop.forget()
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.UNSAFE
    assert "that record is gone" in verdict.why


def test_a_late_copy_of_an_old_event_without_a_record_is_not_safe(shop: Shop) -> None:
    shop.give_up({**note("a"), "time": "2020-01-01T00:00:00Z"}, error=ValueError())
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.UNSAFE
    assert "its producer made it at" in verdict.why


def test_a_record_that_cannot_be_read_holds_up_no_other_letter(shop: Shop) -> None:
    shop.give_up(note("a"), note("b"), error=ValueError())
    [pk] = [judged.context.pk for judged in shop.judged() if "id-a" in str(judged.context.pk)]
    shop.aws.put("dedup", {"pk": pk, "state": "done"})
    found = {str(judged.context.pk): judged.verdict for judged in shop.judged()}
    assert [verdict.safe for key, verdict in sorted(found.items())] == [False, True]


@pytest.mark.parametrize("event_type", ["stamped", "nameless"])
def test_fields_that_a_handler_leaves_out_make_no_other_content(
    shop: Shop, event_type: str
) -> None:
    shop.give_up(note("a", event_type, data={"sent": "late"}), error=ValueError())
    shop.send(note("a", event_type, data={"sent": "early"}))
    shop.work_off()
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN
    assert "as key-conflict, unless its handler declares sent volatile" in verdict.why
    assert shop.send_back() == []
    assert shop.counted() == {"a": 1}


def test_a_field_that_was_added_may_be_volatile_unless_the_consumer_has_said_it_is_not(
    shop: Shop,
) -> None:
    shop.give_up(note("a", data={"amount": 9}), error=ValueError())
    shop.send(note("a"))
    shop.work_off()
    assert "unless its handler declares amount volatile" in shop.verdict().why
    assert shop.send_back() == ["key-conflict"]
    assert "as key-conflict: other content" in shop.verdict().why


@pytest.mark.parametrize("event_type", ["noted", "named"])
def test_other_content_under_the_key_comes_back_as_a_conflict(shop: Shop, event_type: str) -> None:
    shop.give_up(note("a", event_type, data={"amount": 9}), error=ValueError())
    shop.send(note("a", event_type, data={"amount": 1}))
    shop.work_off()
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN
    assert "as key-conflict: other content" in verdict.why
    assert "a new event, with an id of its own" in verdict.why
    assert shop.send_back() == ["key-conflict"]
    assert shop.counted() == {"a": 1}


UNREADABLE: dict[str, Any] = {
    Reason.UNPARSEABLE: "{",
    Reason.INVALID_EVENT: note() | {"specversion": "2"},
    Reason.NO_KEY: note() | {"id": None},
}
REFUSED: dict[str, Any] = {
    Reason.UNKNOWN_TYPE: note() | {"type": "unheard"},
    Reason.INVALID_DATA: note(data={"amount": "many"}),
    Reason.TOO_LARGE: note(data={"sent": "x" * 300_000}),
    Reason.NO_KEY: note("", "named"),
}


@pytest.mark.parametrize("reason", UNREADABLE)
def test_what_nobody_can_read_comes_back(shop: Shop, reason: str) -> None:
    shop.give_up(UNREADABLE[reason])
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN
    assert f"no consumer can read it ({reason}: " in verdict.why
    assert "redrive --edit" in verdict.why
    assert shop.send_back() == [reason]


@pytest.mark.parametrize("reason", REFUSED)
def test_what_was_refused_before_any_record_comes_back_with_its_remedy(
    shop: Shop, reason: str
) -> None:
    shop.give_up(REFUSED[reason])
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN
    assert f"as {reason}, unless this was done: {remedy(reason)}" in verdict.why
    assert shop.send_back() == [reason]


def test_a_late_duplicate_that_a_changed_model_does_not_read_is_a_duplicate(shop: Shop) -> None:
    late = note(data={"amount": "many"})
    shop.give_up(late)
    shop.send(note())
    shop.work_off()
    [item] = shop.aws.items("dedup")
    shop.aws.put("dedup", item | {"fingerprint": fingerprint(event(late))})
    assert shop.verdict().outcome is RedriveOutcome.DUPLICATE
    assert shop.send_back() == []


def event(message: dict[str, Any]) -> CloudEvent:
    return read_event(json.dumps(message), max_bytes=Limits.MESSAGE_BYTES)


@pytest.mark.parametrize(("seconds", "safe"), [(WINDOW - 9 * DAY, True), (WINDOW - 7 * DAY, False)])
def test_a_record_that_the_message_could_outlive_is_not_relied_on(
    shop: Shop, seconds: int, *, safe: bool
) -> None:
    shop.give_up(note("a"), error=ValueError())
    shop.send(note("a"))
    shop.work_off()
    verdict = shop.verdict(in_seconds=seconds)
    assert verdict.safe is safe
    assert ("it would be done again" in verdict.why) is not safe


@pytest.mark.parametrize(("seconds", "safe"), [(29 * DAY, True), (31 * DAY, False)])
def test_no_record_says_nothing_of_what_is_older_than_records_become(
    shop: Shop, seconds: int, *, safe: bool
) -> None:
    shop.give_up(note("a"), error=ValueError())
    verdict = shop.verdict(in_seconds=seconds)
    assert verdict.safe is safe
    assert ("a record may have expired" in verdict.why) is not safe


def test_a_key_that_cannot_be_computed_is_said_to_be_unknown(shop: Shop) -> None:
    shop.give_up(note("a"), error=ValueError())
    letter = shop.letter()
    strange = replace(letter, attributes=replace(letter.attributes, key_hash="0" * 64))
    [found] = assess_letters(DedupRecordReader(shop.aws.dynamodb, "dedup"), [strange])
    assert not found.verdict.safe
    assert f"once trace {'0' * 64}" in found.verdict.why


def test_what_the_relay_gave_up_has_no_queue_to_go_back_to(shop: Shop) -> None:
    [relay] = dead_letter_queues(Deployment.find(), RELAY)
    shop.sqs.send_message(QueueUrl=relay.url, MessageBody=json.dumps(note()))
    with QueueWalk(shop.sqs, [relay], limit=1) as walk:
        [[letter]] = walk.pages()
    [found] = assess_letters(DedupRecordReader(shop.aws.dynamodb, "dedup"), [letter])
    assert not found.verdict.safe
    assert "`once outbox republish` publishes it again" in found.verdict.why


@pytest.mark.parametrize("reason", [one for one in Reason if one is not Reason.NOT_TRIED])
def test_every_reason_but_one_has_a_remedy(reason: str) -> None:
    assert remedy(reason)


def test_a_message_that_had_no_turn_needs_no_remedy() -> None:
    assert remedy(Reason.NOT_TRIED) is None
    assert remedy("what a later version says") is None
