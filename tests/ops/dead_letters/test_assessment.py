"""The verdict on redriving a dead letter, and its outcome when it is redriven."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from once.effects.declaration import Policy
from once.errors import NotDone
from once.events.claim_check import ClaimMissing
from once.events.cloud_event import read_event
from once.events.identity import Key, fingerprint
from once.intake.original_message import OriginalMessage
from once.names import CLOCK_MARGIN_SECONDS, RELAY, UNROUTED, DeadLetterAttribute, Limits, Reason
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.assessment import RedriveOutcome, Verdict, assess_messages, remedy
from once.ops.dead_letters.dead_letter import DIED, dead_letter_queues
from tests.architecture.imports import ROOT
from tests.ops.cloud import Cloud
from tests.ops.shop import DAY, HOUR, KEY, KEY_LIFETIME, Shop, note
from tests.ops.support import OK, answer_with, run

WINDOW = 28 * DAY


@pytest.mark.parametrize("event_type", ["noted", "named", "nameless", "stamped"])
def test_committed_message_is_a_duplicate_with_and_without_a_recorded_key(
    shop: Shop, event_type: str
) -> None:
    shop.dead_letter(note("a", event_type), error=ValueError())
    shop.move(note("a", event_type))  # a message without a key: that of its rule
    known = replace(shop.box.consumer)
    for consumer in (known, replace(known, keys={}, volatile={})):
        shop.set_rules(consumer)
        recorded, moved = judged(shop)
        assert recorded.outcome is RedriveOutcome.AFTER_REPAIR
        if consumer is known:
            assert moved.outcome is RedriveOutcome.AFTER_REPAIR
        else:
            assert moved.outcome is RedriveOutcome.NEEDS_A_PERSON
            assert f"the key rule of orders for {event_type!r} could not be read" in moved.why
    shop.process(note("a", event_type))
    assert judged(shop)[0].outcome is RedriveOutcome.DONE_ALREADY
    shop.set_rules(known)
    recorded, moved = judged(shop)
    assert recorded.outcome is moved.outcome is RedriveOutcome.DONE_ALREADY
    assert "will be acknowledged as a duplicate" in recorded.why
    run("dlq", "redrive", "--yes", "--rate", 1000)
    shop.work_off()
    assert shop.dead_letters() == []
    assert shop.counted() == {"a": 1}


def judged(shop: Shop) -> list[Verdict]:
    """The verdicts on the message that its consumer wrote and on the one that SQS moved."""
    found = assess_messages(shop.records, sorted(shop.dead_letters(), key=lambda one: one.moved))
    return [each.verdict for each in found]


def test_message_without_its_record_is_unsafe_if_it_had_one_or_is_old(shop: Shop) -> None:
    shop.process(note("a"))
    shop.dead_letter(note("a", data={"amount": 9}))
    shop.forget()
    shop.dead_letter({**note("b"), "time": "2020-01-01T00:00:00Z"}, error=ValueError())
    gone, old = (each.verdict for each in assess_messages(shop.records, shop.dead_letters()))
    assert gone.outcome is old.outcome is RedriveOutcome.NEEDS_A_PERSON
    assert "that dedup record is gone" in gone.why
    assert "its producer made it at" in old.why


@pytest.mark.parametrize("event_type", ["stamped", "nameless"])
def test_difference_in_a_volatile_field_is_a_duplicate(shop: Shop, event_type: str) -> None:
    shop.dead_letter(note("a", event_type, data={"sent": "late"}), error=ValueError())
    shop.process(note("a", event_type, data={"sent": "early"}))
    assert shop.verdict().outcome is RedriveOutcome.DONE_ALREADY
    assert shop.send_back() == []
    assert shop.counted() == {"a": 1}


def test_difference_may_be_volatile_if_the_fields_are_unknown_and_no_conflict_was_reported(
    shop: Shop,
) -> None:
    shop.set_rules(replace(shop.box.consumer, keys={}, volatile={}))  # synthesis read none
    shop.dead_letter(note("a", data={"amount": 9}), error=ValueError())
    shop.process(note("a"))
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.FAILS_AGAIN
    assert "If they differ in volatile fields alone, it is a duplicate" in verdict.why
    assert shop.send_back() == ["key-conflict"]
    assert "as key-conflict again: other content" in shop.verdict().why


@pytest.mark.parametrize(("recorded", "is_known"), [(KEY, True), (KEY + "b", False)])
def test_key_of_a_message_that_sqs_moved_counts_only_if_its_event_has_it(
    shop: Shop, recorded: str, *, is_known: bool
) -> None:
    shop.set_rules(replace(shop.box.consumer, keys={}, volatile={}))  # synthesis read none
    shop.send(note("a"), **{DeadLetterAttribute.KEY: recorded})
    shop.move_received(shop.waiting())
    assert shop.verdict().safe is is_known


def test_recorded_key_that_the_deployed_rule_does_not_give_is_unsafe(shop: Shop) -> None:
    shop.fail("a")
    shop.set_rules(replace(shop.box.consumer, keys={"noted": Key.field("name")}))
    verdict = shop.verdict()
    assert verdict.outcome is RedriveOutcome.NEEDS_A_PERSON
    other = "orders#field#noted#name#str:a"
    assert f"names the key {KEY}, and the deployed key rule gives {other}" in verdict.why


RETURNING: dict[str, tuple[Any, str]] = {
    Reason.UNPARSEABLE: ("{", ": "),
    Reason.UNKNOWN_TYPE: (note() | {"type": "unheard"}, ", unless its cause is fixed"),
    Reason.INVALID_DATA: (note(data={"amount": "many"}), ", unless its cause is fixed"),
    Reason.NO_KEY: (note("", "named"), ": "),
}


def test_rejected_message_is_dead_lettered_again_with_a_remedy(shop: Shop) -> None:
    shop.dead_letter(*(message for message, _ in RETURNING.values()))
    for one in assess_messages(shop.records, messages := shop.dead_letters()):
        said, reason = str(one.verdict), str(one.message.reason)
        assert one.verdict.outcome is RedriveOutcome.FAILS_AGAIN
        detail = RETURNING[reason][1]
        assert said.startswith(f"Fails again. It will be dead-lettered as {reason} again{detail}")
        advice = str(remedy(reason)).replace("MESSAGE_ID", one.message.message_id)
        assert said.endswith(f" {advice}")
    run("dlq", "redrive", "--yes", "--rate", 1000, *(m.message_id for m in messages))
    shop.work_off()
    assert {message.reason for message in shop.dead_letters()} == {*RETURNING}


@pytest.mark.parametrize(
    ("minutes", "model", "handler"),
    [
        (-1, RedriveOutcome.FAILS_AGAIN, "before"),
        (1, RedriveOutcome.AFTER_REPAIR, "after"),
    ],
    ids=["deployed before", "deployed after"],
)
def test_a_verdict_that_depends_on_code_names_the_version_that_serves(
    shop: Shop, minutes: int, model: RedriveOutcome, handler: str
) -> None:
    deployed = datetime.now(UTC) + timedelta(minutes=minutes)
    configuration = {"Version": "7", "LastModified": deployed.isoformat()}
    answer_with("lambda.GetFunctionConfiguration", lambda params: (OK, configuration))
    shop.fail("a")
    shop.dead_letter(note("b", data={"amount": "many"}))
    box = replace(shop.box, consumer=replace(shop.box.consumer, function_name="once-orders"))
    messages = [replace(each, queue=box) for each in shop.dead_letters()]
    found = assess_messages(shop.records, messages)
    failed, unread = sorted(found, key=lambda one: one.message.reason == Reason.INVALID_DATA)
    assert failed.verdict.outcome is RedriveOutcome.AFTER_REPAIR
    assert f"Version 7 serves, deployed {handler} this failure." in failed.verdict.why
    assert unread.verdict.outcome is model
    assert "Version 7 serves" in unread.verdict.why


def test_late_duplicate_with_data_that_the_model_rejects_is_a_duplicate(shop: Shop) -> None:
    late = note(data={"amount": "many"})
    shop.dead_letter(late)
    shop.process(note())
    [item] = shop.aws.items("dedup")
    event = read_event(json.dumps(late), max_bytes=Limits.MESSAGE_BYTES)
    shop.aws.given("dedup", item | {"fingerprint": fingerprint(event)})
    assert shop.verdict().outcome is RedriveOutcome.DONE_ALREADY
    assert shop.send_back() == []


@pytest.mark.parametrize(
    ("committed", "seconds", "why"),
    [
        pytest.param(True, WINDOW - 9 * DAY, None, id="record outlives the message"),
        pytest.param(True, WINDOW - 7 * DAY, "would be processed again", id="record expires first"),
        pytest.param(False, 29 * DAY, None, id="no record, younger than any record's end"),
        pytest.param(False, 31 * DAY, "which may have expired", id="no record, older"),
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
    reasons = ("would be processed again", "which may have expired")
    assert [one for one in reasons if one in verdict.why] == ([why] if why else [])


def test_every_reason_but_one_has_a_remedy() -> None:
    assert [reason for reason in Reason if not remedy(reason)] == [Reason.NOT_TRIED]
    assert remedy("reason of a later version") is None


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


def test_unknown_effect_continues_under_its_key_while_the_provider_knows_it(
    failing: Failing,
) -> None:
    shop = failing(Policy.PROVIDER_KEY)
    [key] = set(shop.outside.calls)
    verdict = shop.verdict(in_seconds=KEY_LIFETIME - HOUR)
    assert verdict.outcome is RedriveOutcome.AFTER_REPAIR
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
    assert "Find out at the provider" in str(verdict)
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
    assert f"the message {'fails' if reasons else 'is done'} again." in verdict.why
    assert shop.send_back() == reasons
    if reasons:
        shop.forget()
        assert not shop.verdict().safe
        assert "its dedup record is gone" in shop.verdict().why


def test_conflict_with_a_pending_effect_is_dead_lettered_again(failing: Failing) -> None:
    shop = failing(Policy.AT_MOST_ONCE)
    shop.dead_letter(note(data={"amount": 9}))
    unknown, conflict = (
        assessed.verdict for assessed in assess_messages(shop.records, shop.dead_letters())
    )
    assert unknown.outcome is RedriveOutcome.NEEDS_A_PERSON
    assert conflict.outcome is RedriveOutcome.FAILS_AGAIN
    assert "as key-conflict again: other content" in conflict.why


def test_unknown_effect_takes_precedence_over_a_difference_that_may_be_volatile(
    failing: Failing,
) -> None:
    shop = failing(Policy.AT_MOST_ONCE)
    shop.set_rules(replace(shop.box.consumer, volatile={"noted": None}))
    other = OriginalMessage(json.dumps(note(data={"amount": 9})), {})
    [found] = assess_messages(shop.records, [replace(shop.only_dead_letter(), original=other)])
    assert found.verdict.outcome is RedriveOutcome.NEEDS_A_PERSON


RULES = re.compile(r"^\| ([^|]+) \| (\S [a-z ]+) \|$", re.MULTILINE)
UNROUTED_REASONS = [Reason.NO_TYPE, Reason.UNSUBSCRIBED_TYPE, Reason.TOO_MANY_ATTRIBUTES]


def told(reason: Reason | None) -> dict[str, str]:
    """Return the verdicts of a reason's page, by what else decides."""
    page = ROOT / "docs" / "reasons" / f"{reason or DIED}.md"
    return dict(RULES.findall(page.read_text()))


def as_told(found: Mapping[str, RedriveOutcome]) -> dict[str, str]:
    return {when: f"{one.symbol} {one.words}" for when, one in found.items()}


def test_the_page_of_each_reason_has_its_verdicts(shop: Shop) -> None:
    every: list[Reason | None] = [*Reason, None]

    def judge(**changed: Any) -> dict[Reason | None, RedriveOutcome]:
        message = shop.only_dead_letter()
        messages = [replace(message, **{"reason": reason, **changed}) for reason in every]
        found = assess_messages(shop.records, messages)
        return {r: each.verdict.outcome for r, each in zip(every, found, strict=True)}

    shop.fail("a")
    [unrouted], [relay] = (dead_letter_queues(Deployment.find(), one) for one in (UNROUTED, RELAY))
    other = OriginalMessage(json.dumps(note() | {"type": "unheard"}), {})
    taken, not_taken = judge(queue=unrouted), judge(queue=unrouted, original=other)
    of_relay, edited, records = judge(queue=relay), judge(edited=True), {"none": judge()}
    shop.process(note("a"))
    records["same content committed"] = judge()
    shop.aws.given("dedup", shop.aws.items("dedup")[0] | {"fingerprint": "0" * 64})
    records["other content committed"] = judge()
    gone = Mock(read=Mock(side_effect=ClaimMissing()))
    body = {name: value for name, value in note().items() if name != "data"}
    large = OriginalMessage(json.dumps(body | {"dataref": "s3://bucket/producers/a"}), {})
    missing = judge(original=large, queue=replace(shop.box, claims=gone))

    for reason in every:
        found = {when: outcomes[reason] for when, outcomes in records.items()}
        if reason in UNROUTED_REASONS:
            found = {
                "a consumer takes it from producers": taken[reason],
                "no consumer takes it from producers": not_taken[reason],
            }
        elif reason is Reason.UNPUBLISHABLE:
            found = {"any": of_relay[reason]}
        elif reason is Reason.CLAIM_MISSING:
            found = {f"there; {when}": one for when, one in found.items()}
            found["still missing"] = missing[reason]
        else:
            if len({*found.values()}) == 1:
                found = {"any": found["none"]}
            if edited[reason] not in found.values():
                found["none, body edited with `--edit`"] = edited[reason]
        rules = {when: one for when, one in told(reason).items() if not when.startswith("pending")}
        assert rules == as_told(found), reason


def test_page_of_unknown_effects_has_the_verdicts_on_pending_ones(failing: Failing) -> None:
    shop = failing(Policy.PROVIDER_KEY)
    remembered, forgotten = (shop.verdict(in_seconds=s).outcome for s in (0, LAST_TAKEOVER + 1))
    how = ("--yes", "--why", "seen", "--done", '"reference"')
    assert run("effects", "settle", KEY, *how).exit_code == 0
    found = {
        "pending; the provider remembers the key": remembered,
        "pending; no key that the provider remembers": forgotten,
        "pending; outcome recorded with `once effects settle`": shop.verdict().outcome,
    }
    rules = told(Reason.EFFECT_UNKNOWN)
    assert {when: rules[when] for when in rules if when.startswith("pending")} == as_told(found)


def test_effect_that_was_certainly_not_done_continues(failing: Failing) -> None:
    shop = failing(Policy.PROVIDER_KEY, NotDone())
    verdict = shop.verdict(in_seconds=KEY_LIFETIME + HOUR)
    assert verdict.outcome is RedriveOutcome.AFTER_REPAIR
    assert "was certainly not done" in verdict.why
    assert shop.send_back() == []
    assert shop.counted() == {"a": 1}
