"""An effect from its intent to its outcome, its policies, and faults of DynamoDB at its writes."""

from typing import Any

import pytest

from once.commit.dedup_record import StoredRecord
from once.dynamodb_rules import serialize
from once.effects.declaration import Policy
from once.errors import NotDone
from once.names import CLOCK_MARGIN_SECONDS
from once.testing import Fault, answer_lost, cancelled, never_sent, refused
from once.transaction import Transaction
from tests.once.effects.provider import (
    LIFETIME,
    NOW,
    TAKEOVER,
    WRITE,
    Charge,
    Make,
    Step,
    Till,
    after,
)
from tests.once.support import COUNTERS, Killed, Log, Note, amounts, calls, note, reasons

UNKNOWN = after(TimeoutError())


def test_an_outcome_commits_with_state_and_events(till: Till) -> None:
    with calls(till.aws.runtime.dynamodb) as made:
        assert till.deliver(note("a", 7))
    assert [(name, len(p["TransactItems"])) for name, p in made] == [(WRITE, 1), (WRITE, 2)]
    assert list(till.provider.charges.values()) == [b'{"name":"a","amount":7}']
    assert till.record["outcome"] == "accepted"
    till.assert_paid_once(calls=1, amount=7)


def test_x1_the_intent_is_in_the_table_when_the_provider_is_called(till: Till) -> None:
    found: list[dict[str, Any]] = []
    till.provider.plan = [lambda: found.append(till.record)]
    till.deliver(note("a", 7), remaining_ms=12_345)
    [pending] = found
    intent = StoredRecord.read(serialize(pending)).intent
    assert intent is not None
    assert [(intent.provider_key, intent.request)] == till.provider.calls
    assert intent.lease_until == NOW * 1000 + 12_345  # when Lambda ends the function
    assert intent.key_expires_at == NOW + LIFETIME
    assert len(intent.owner) == 32
    assert len(intent.provider_key) <= 255
    assert (intent.effect, intent.standing, pending["state"]) == ("charge", "in-flight", "pending")
    assert pending.keys().isdisjoint({"expires_at", "outbox"})  # it never expires


def test_x1_a_done_effect_is_never_called_again(till: Till) -> None:
    event = note()
    till.deliver(event)
    done = till.record
    assert (done["effect"], done["provider_key"]) == ("charge", till.provider.calls[0][0])
    assert "expires_at" in done
    assert done.keys().isdisjoint({"owner", "request", "lease_until", "standing", "key_expires_at"})
    till.later(10 * LIFETIME)
    assert till.deliver(event, receive_count=3)
    assert len(till.provider.calls) == 1
    assert till.record == done


@pytest.mark.parametrize("fault", [refused("AccessDeniedException"), refused("Validation")])
def test_x1_an_intent_that_does_not_commit_is_not_called(till: Till, fault: Fault) -> None:
    with till.faults(fault):
        assert not till.deliver(note())
    assert till.provider.calls == []
    assert till.aws.items("dedup") == []


def test_x1_a_redelivery_calls_with_the_same_key_and_request(make: Make) -> None:
    till, event = make(*[UNKNOWN] * 3), note()
    assert not till.deliver(event)
    assert till.standing == "unknown"
    assert till.deliver(event, receive_count=2)
    till.assert_paid_once(calls=4)


@pytest.mark.parametrize("again", [Charge("a", 6), None], ids=["another request", "no effect"])
def test_x1_a_redelivery_sends_the_stored_request_even_if_the_handler_changed(
    make: Make, again: Charge | None
) -> None:
    requests = iter([Charge("a", 5), again])

    def pay(event: Note, tx: Transaction) -> None:
        if request := next(requests):
            tx.perform(till.effect, request)
        else:
            tx.put(COUNTERS, {"name": "something else", "amount": 9})

    till = make(handler=pay)
    event = till.leave_pending()
    till.later()
    assert till.deliver(event)
    assert {request for _, request in till.provider.calls} == {b'{"name":"a","amount":5}'}
    till.assert_paid_once(calls=2)


def test_x1_an_effect_whose_record_was_deleted_starts_again_with_the_same_key(till: Till) -> None:
    def delete() -> None:
        key = {"pk": {"S": till.record["pk"]}}
        till.aws.dynamodb.delete_item(TableName="dedup", Key=key)

    event, till.provider.plan = note(), [delete]
    with calls(till.aws.runtime.dynamodb) as made:
        assert not till.deliver(event)
    # The intent, the completion and the hand-back, without retries.
    assert [name for name, _ in made if name == WRITE] == [WRITE] * 3
    assert till.aws.items("dedup") == till.aws.items("counters") == []
    assert till.deliver(event)
    till.assert_paid_once(calls=2)


@pytest.mark.parametrize("policy", Policy)
def test_a_call_that_was_not_done_is_tried_three_times_and_then_redelivered(
    make: Make, policy: Policy
) -> None:
    till, event = make(*[NotDone()] * 3, policy=policy), note()
    assert not till.deliver(event)
    assert len(till.provider.calls) == 3
    assert len(till.aws.slept) == 2
    assert till.standing == "not-done"
    assert till.deliver(event)
    till.assert_paid_once(calls=4)


# DynamoDB faults at an effect's writes: none causes a second charge or loses an outcome.


CONFLICT = cancelled("TransactionConflict")
NO_ANSWER = {"committed": answer_lost(), "not committed": never_sent()}
LOST = pytest.mark.parametrize("fault", NO_ANSWER.values(), ids=NO_ANSWER)
WRITES = pytest.mark.parametrize("before", [[], [None]], ids=["intent", "completion"])


@LOST
@WRITES
def test_x1_a_write_without_an_answer_is_looked_up_and_called_once(
    till: Till, before: list[None], fault: Fault
) -> None:
    with till.faults(*before, fault):
        assert till.deliver(note())
    till.assert_paid_once(calls=1)


@pytest.mark.parametrize(
    ("faults", "standing"),
    [
        ([answer_lost()], "unknown"),
        ([never_sent()], "unknown"),
        ([never_sent()] * 3, "in-flight"),
        ([CONFLICT], "unknown"),
    ],
)
def test_x1_a_hand_back_without_an_answer_is_retried_and_then_logged(
    till: Till, faults: list[Fault], standing: str
) -> None:
    event, log = note(), Log(till.aws)
    till.provider.plan = [after(TimeoutError())] * 3
    with till.faults(None, *faults):
        assert not till.deliver(event)
    assert till.standing == standing
    logged = "effect not handed back" in [line["message"] for line in log.lines()]
    assert logged == (standing == "in-flight")
    till.later()
    assert till.deliver(event)
    till.assert_paid_once(calls=4)


# Policies: whether an effect with an unknown outcome is called again, and for how long.


DAY = 24 * 60 * 60


@pytest.mark.parametrize(
    ("seconds", "called"),
    [
        (LIFETIME - CLOCK_MARGIN_SECONDS - 1, True),
        (LIFETIME - CLOCK_MARGIN_SECONDS, False),
        (30 * DAY, False),
    ],
)
@pytest.mark.parametrize("step", [UNKNOWN, Killed()], ids=["unanswered", "killed"])
def test_x4_a_provider_key_is_not_used_after_its_lifetime(
    till: Till, step: Step, seconds: int, *, called: bool
) -> None:
    event, till.provider.plan = note(), [step] * 3
    till.killed(event)
    pending, earlier, till.provider.plan = till.record, len(till.provider.calls), []
    till.later(seconds)
    text = (
        "EffectUnknown: the effect 'charge' may have happened, and the provider may have forgotten "
        f"the key {pending['provider_key']}: look it up there"
    )
    for _ in ("delivery", "redrive"):
        assert till.deliver(event)
        assert till.dead_letters() == [("effect-unknown", text)] * (not called)
    assert len(till.provider.calls) == earlier + called
    assert amounts(till.aws) == ({"a": 1} if called else {})
    assert (till.record == pending) is not called


def test_x4_the_lifetime_of_a_key_starts_with_its_first_unknown_call(make: Make) -> None:
    till, event = make(*[NotDone()] * 9), note()
    for _ in range(3):
        assert not till.deliver(event)
        till.later(DAY)
    till.leave_pending(event)
    assert till.record["key_expires_at"] == NOW + 3 * DAY + LIFETIME
    till.later()
    assert till.deliver(event)
    till.assert_paid_once(calls=11)


def test_x4_a_later_call_that_was_not_done_leaves_an_earlier_one_unknown(make: Make) -> None:
    till, event = make(UNKNOWN, *[NotDone()] * 5), note()
    assert not till.deliver(event)
    assert till.standing == "unknown"
    till.later(DAY / 2)
    assert not till.deliver(event)
    assert (till.standing, till.record["key_expires_at"]) == ("unknown", NOW + LIFETIME)
    till.later(DAY / 2)
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"]


def test_at_least_once_is_called_again_without_a_time_limit(make: Make) -> None:
    till, event = make(*[UNKNOWN] * 3, policy=Policy.AT_LEAST_ONCE), note()
    assert not till.deliver(event)
    assert "key_expires_at" not in till.record
    till.later(365 * DAY)
    assert till.deliver(event)
    till.assert_paid_once(calls=4)


@pytest.mark.parametrize("error", [TimeoutError, ValueError])
def test_at_most_once_is_not_called_again_after_an_unknown_outcome(
    make: Make, error: type[Exception]
) -> None:
    till, event = make(after(error()), policy=Policy.AT_MOST_ONCE), note()
    text = (
        f"EffectUnknown: the effect 'charge' brought no outcome: {error.__name__}; it is done at "
        "most once: find out outside whether it was"
    )
    assert till.deliver(event)
    assert till.dead_letters() == [("effect-unknown", text)]
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"]
    assert (len(till.provider.calls), till.standing) == (1, "unknown")


@pytest.mark.parametrize("charged", [False, True])
def test_at_most_once_is_not_called_again_after_a_kill(make: Make, *, charged: bool) -> None:
    till = make(policy=Policy.AT_MOST_ONCE)
    event = till.leave_pending(charged=charged)
    till.later(TAKEOVER - 1)
    assert not till.deliver(event)
    till.later(1)
    assert till.deliver(event)
    text = (
        "EffectUnknown: the effect 'charge' may have happened, and is done at most once: find out "
        "outside whether it did"
    )
    assert till.dead_letters() == [("effect-unknown", text)]
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {}
